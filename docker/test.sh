#!/usr/bin/env bash
# Everything that is tested here, on real parts, in one go.
#
#   bash docker/test.sh                 lint, unit tests, then the real Slurm, sshd, Airflow and gym
#   bash docker/test.sh --fast          lint and unit tests only: a minute, and nothing but pip is needed
#   bash docker/test.sh --real-stack    all of it, and a real vLLM on the CPU (5 GB, some minutes more)
#   bash docker/test.sh --soak          all of it, a kill at every step, thousands at random, load; GYM_SOAK_MINUTES (default: 20)
#   bash docker/test.sh -- ARG...       arguments for every pytest call, such as -k or -x
#
# It needs a Python from 3.11 on, and for the real parts root or sudo on Debian or Ubuntu. What it installs goes to
# GYM_TEST_DIR (default: ~/.cache/airflow-gym-provider/test), the clusters it starts to folders under /tmp that it removes.
# A test that is skipped counts as failed.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
repo=$(dirname -- "$here")
# shellcheck source-path=SCRIPTDIR source=real_common.sh
. "$here/real_common.sh"
# shellcheck source=SCRIPTDIR/cluster/packages.sh
. "$here/cluster/packages.sh"

fast=0 real_stack=0 soak=0
while [ $# -gt 0 ]; do
    case $1 in
        --fast) fast=1 ;;
        --real-stack) real_stack=1 ;;
        --soak) soak=1 ;;
        --) shift; break ;;
        -h | --help) sed -n '2,12s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
        *) die "unknown argument: $1 (see --help)" ;;
    esac
    shift
done
pytest_words=("$@")

failed=() names=() processes=()
# step NAME COMMAND...: runs it, tells how long it took, and goes on: one run shows every part that fails.
step() { timed "$@" || failed+=("$1"); }

timed() {
    local name=$1 began=$SECONDS
    shift
    say "== $name"
    if "$@"; then
        say "== $name: good, $((SECONDS - began)) s"
    else
        say "== $name: FAILED, $((SECONDS - began)) s"
        return 1
    fi
}

make_environment() {
    local python stamp
    need_python 11 13 GYM_TEST_PYTHON
    python=$(find_python 11 13 GYM_TEST_PYTHON)
    stamp="$("$python" -V) $(sha256sum "$repo/pyproject.toml" | cut -c1-16) $repo"
    venv=$home/venv
    is_complete "$venv" "$stamp" && return 0
    need_space "$home" 2000
    say "installing Airflow and the tools for tests into $venv (two minutes or so)"
    fresh_venv "$python" "$venv"
    install_into "$venv" --upgrade 'pip>=25.1'
    install_into "$venv" --editable "$repo" --group "$repo/pyproject.toml:test"
    mark_complete "$venv" "$stamp"
}

# The pages are looked at in a real browser, the distribution's.
need_browser() { install_from_distribution "chromium" missing_browser chromium fonts-dejavu-core; }

missing_browser() {
    local program
    for program in chromium chromium-browser google-chrome; do
        if command -v "$program" >/dev/null; then return 0; fi
    done
    printf 'chromium '
}

# What there is to check is listed in .pre-commit-config.yaml.
lint() { PRE_COMMIT_HOME=$home/pre-commit pre-commit run --all-files; }

tests() { python -m pytest "$@" "${pytest_words[@]}"; }

# What decides about jobs is known in every branch; a choice of tests (-- -k …) cannot show that.
unit_tests() {
    export COVERAGE_FILE=$home/coverage
    tests -n 2 --cov --cov-report= tests/unit || return 1
    say "branches and lines that the unit tests take: $(coverage report --format=total) %"
    [ ${#pytest_words[@]} -gt 0 ] ||
        coverage report --include='airflow_gym_provider/chain/*,airflow_gym_provider/slurm/*' --fail-under=100
}

of_the_wheel() {
    local more=()
    [ "$soak" = 0 ] || more=(--all)
    GYM_PACKAGES_DIR=$home/packages bash "$here/packages.sh" "${more[@]}"
}

# Real daemons on a busy machine are sometimes late. What failed gets one second chance, and the log says so. A job that
# was doubled or lost is no matter of being late.
on_real_parts() {
    local state
    state=$(mktemp -d "$home/step.XXXXXX")
    export GYM_TEST_VERDICT=$state/a-job-was-doubled-or-lost
    set -- -o cache_dir="$state/cache" "$@"
    tests "$@" && return 0
    [ ! -e "$GYM_TEST_VERDICT" ] || return 1
    say "once more: what has just failed"
    tests "$@" --last-failed --last-failed-no-failures none || return 1
    say "passed at the second time; see above for the first"
}

# beside NAME COMMAND...: a step that goes on while others do, for what mostly waits. `all_beside` shows its words.
beside() {
    local words=$home/beside.${#names[@]}.out
    names+=("$1")
    set -m # a process group each, so that an interrupt reaches it
    timed "$@" >"$words" 2>&1 &
    set +m
    processes+=($!)
}

# all_beside: waits until all of them have ended.
all_beside() {
    local number
    for number in "${!processes[@]}"; do
        wait "${processes[$number]}" || failed+=("${names[$number]}")
        cat "$home/beside.$number.out"
    done
    names=() processes=()
}

# An interrupted pytest ends the daemons that it has started.
interrupted() {
    local process
    for process in "${processes[@]}"; do kill -INT -- "-$process" 2>/dev/null || true; done
    wait
    exit 130
}

# Tests on the cluster mostly wait (a walltime takes 80 s of real time), so several run at once on few cores.
on_cluster() { on_real_parts -n "${GYM_TEST_PROCESSES:-4}" --dist loadgroup "$@"; }

# By themselves: they leave no core for what else has to be in time.
at_every_step() { GYM_TESTS_EVERY_STEP=1 on_cluster tests/integration/test_crashes.py; }

home=$(absolute_dir "${GYM_TEST_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/airflow-gym-provider/test}")
take_lock "$home"
make_environment
export PATH="$venv/bin:$PATH" GYM_TESTS_NO_SKIPS=1 GYM_TEST_DIR=$home
unset PYTHONPATH AIRFLOW_HOME
cd "$repo"
rm -rf "$home"/step.*
trap interrupted INT TERM

step "lint" lint
step "unit tests" unit_tests
if [ "$fast" = 0 ]; then
    step "integration tests on the real Slurm" on_cluster tests/integration
    need_browser
    step "end to end on a real Airflow" on_real_parts tests/e2e -m "airflow and not (outage or spread or real_gym or real_stack)"
    step "end to end while parts are killed" on_real_parts tests/e2e -m "(outage or spread) and not soak"
    beside "the wheel, at both ends of its dependencies" of_the_wheel
    beside "end to end with the real gym" on_real_parts tests/e2e -m real_gym
    all_beside
fi
if [ "$soak" = 1 ]; then
    step "a kill at every step" at_every_step
    step "kills at random" tests -s tests/integration -m soak
    step "load on several machines" tests -s tests/e2e -m soak
fi
[ "$real_stack" = 0 ] || step "end to end with the real vLLM" on_real_parts tests/e2e -m real_stack

if [ ${#failed[@]} -gt 0 ]; then
    printf '%s failed: %s\n' "$(basename "$0")" "$(IFS=';'; echo "${failed[*]}")" >&2
    exit 1
fi
say "all good after $((SECONDS / 60)) min $((SECONDS % 60)) s"
