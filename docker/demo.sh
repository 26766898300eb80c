#!/usr/bin/env bash
# From a fresh clone to finished evaluations in an Airflow that you can look at, on this machine alone.
#
#   bash docker/demo.sh              a real Slurm, a real Airflow, dags/nightly_benchmarks.py; then all of it is ended
#   bash docker/demo.sh --keep       leaves both running and says where to look
#   bash docker/demo.sh --down DIR   ends what --keep left, and removes it
#   bash docker/demo.sh --real-gym   evaluates with the real gym command (1.5 GB more) instead of its stand-in
#
# Needs Debian or Ubuntu, root or sudo (for Slurm's packages, if they are missing), Python 3.11 or newer, 2 GB of disk.
# No GPU: models and containers are stand-ins. The first time takes about five minutes, then three: a Slurm job runs
# into its walltime of one minute, and another goes on from there. What is installed goes to GYM_DEMO_CACHE (default
# ~/.cache/airflow-gym-provider/demo), everything else to one folder under /tmp.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
repo=$(dirname -- "$here")
# shellcheck source=SCRIPTDIR/real_common.sh
. "$here/real_common.sh"
# shellcheck source=SCRIPTDIR/cluster/packages.sh
. "$here/cluster/packages.sh"

keep=0 real_gym=0 folder="" watcher=""
unset GYM_AIRFLOW_URL # of another Airflow, in a shell that has its environment
cache=${GYM_DEMO_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/airflow-gym-provider/demo}

heading() { printf '\n== %s\n' "$*"; }

# Everything that is missing and cannot be installed, in one message.
check_machine() {
    local missing=() programs_missing
    need_python 11 13 GYM_DEMO_PYTHON
    (find_python 11 13 GYM_DEMO_PYTHON) >/dev/null 2>&1 ||
        missing+=("Python 3.11 to 3.13 with venv: apt-get install python3-venv, or GYM_DEMO_PYTHON=/path/to/python3")
    programs_missing=$(PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin missing_programs)
    if [ -n "$programs_missing" ]; then
        command -v apt-get >/dev/null || missing+=("$programs_missing(no apt-get here, so they are yours to install)")
        can_be_root || missing+=("$programs_missing(run as root, or have sudo, to install them)")
    fi
    [ ${#missing[@]} = 0 ] || die "this machine lacks$(printf '\n  - %s' "${missing[@]}")"
}

# The environment is made once and used again until the package's dependencies change.
make_environment() {
    local python stamp
    python=$(find_python 11 13 GYM_DEMO_PYTHON)
    stamp="$("$python" -V) $(sha256sum "$repo/pyproject.toml" | cut -c1-16) $repo"
    cache=$(absolute_dir "$cache")
    take_lock "$cache"
    venv=$cache/venv
    if is_complete "$venv" "$stamp"; then
        heading "Airflow and this package are installed already: $venv"
    else
        heading "Installing Airflow and this package into $venv (one to three minutes)"
        ! pgrep -f -- "^$venv/bin/" >/dev/null || die "an Airflow of a demo that was kept still runs from $venv, which is that
of another checkout or an older version: end it with --down and its folder, or give this one a GYM_DEMO_CACHE of its own"
        need_space "$cache" 2000
        fresh_venv "$python" "$venv"
        install_into "$venv" --editable "$repo"
        mark_complete "$venv" "$stamp"
    fi
    exec 9>&-
}

bring_up() {
    heading "Starting a Slurm of four nodes"
    bash "$here/cluster.sh" up --dir "$folder/cluster"
    eval "$(bash "$here/cluster.sh" env --dir "$folder/cluster")"
    [ $real_gym = 0 ] || use_real_gym
    heading "Starting Airflow (about half a minute)"
    export GYM_OUTPUT_PATH=$folder/runs
    bash "$here/airflow.sh" up --dir "$folder/airflow" --dags "$folder/dags" --python "$venv/bin/python"
    eval "$(bash "$here/airflow.sh" env --dir "$folder/airflow")"
    [ $keep = 0 ] || where_to_look
}

# The same DAG over another YAML file: the real gym's benchmark, with the model still a stand-in.
use_real_gym() {
    heading "Installing the real gym (two minutes the first time)"
    eval "$(bash "$here/real_gym.sh" "$cache/real-gym")"
    export REAL_GYM_DIR
    cp "$here/real_gym/submit.yaml" "$folder/dags/nightly_benchmarks.yaml"
}

run_dag() {
    local expected=(--resumes mmlu_pro)
    [ $real_gym = 0 ] || expected=()
    heading "Running the DAG nightly_benchmarks"
    # In the background, because a shell heeds no signal before its foreground command has ended.
    python3 "$here/demo/watch.py" nightly_benchmarks "${expected[@]}" &
    watcher=$!
    wait $watcher
}

take_down() {
    [ -d "$1/cluster" ] || [ -d "$1/airflow" ] || die "$1 is no folder of this demo"
    bash "$here/airflow.sh" down --dir "$1/airflow"
    bash "$here/cluster.sh" down --dir "$1/cluster"
}

where_to_look() {
    printf '%s\n' "Airflow:  $GYM_AIRFLOW_URL  (user $GYM_AIRFLOW_USER, password $GYM_AIRFLOW_PASSWORD)" \
        "DAGs:     $folder/dags  (a new file is seen within ten seconds; it starts paused)" \
        "Results:  $folder/runs" \
        "A shell:  eval \"\$(bash docker/cluster.sh env --dir $folder/cluster; bash docker/airflow.sh env --dir $folder/airflow)\"" \
        "          then airflow dags list, airflow gym …, squeue; the connection is gym_cluster" \
        "The end:  bash docker/demo.sh --down $folder"
}

# Whatever happens, nothing is left running unless --keep asked for it; a failure leaves its logs.
at_exit() {
    local code=$?
    trap - EXIT INT TERM
    if [ $keep = 1 ] && [ $code != 130 ] && [ -n "${GYM_AIRFLOW_URL:-}" ]; then
        if [ $code = 0 ]; then heading "Still running, as --keep asks"; else heading "Failed, and still running, as --keep asks"; fi
        where_to_look
        exit $code
    fi
    heading "Ending what was started"
    [ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
    take_down "$folder" || true
    if [ $code = 0 ] || [ $code = 130 ]; then
        rm -rf "$folder"
    else
        printf '%s\n' "The demo failed. Its logs: $folder/airflow/log, $folder/airflow/home/logs (tasks)," \
            "$folder/cluster/log, and those of the Slurm jobs below $folder/runs" >&2
    fi
    exit $code
}

main() {
    while [ $# -gt 0 ]; do
        case $1 in
            --keep) keep=1 ;;
            --real-gym) real_gym=1 ;;
            --down)
                [ -n "${2:-}" ] || die "--down wants the folder that --keep printed"
                [ -d "$2" ] || { say "$2 is gone already"; exit 0; }
                take_down "$2" && rm -rf "$2"
                exit ;;
            -h | --help) sed -n '2,13s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit ;;
            *) die "unknown argument: $1 (see --help)" ;;
        esac
        shift
    done
    check_machine
    make_environment
    folder=$(mktemp -d /tmp/gym-demo-XXXXXX)
    trap at_exit EXIT
    trap 'exit 130' INT TERM
    chmod 0755 "$folder"
    mkdir "$folder/runs" "$folder/dags"
    cp "$repo"/dags/nightly_benchmarks.* "$folder/dags"
    bring_up
    run_dag
}

main "$@"
