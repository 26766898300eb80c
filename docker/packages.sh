#!/usr/bin/env bash
# The wheel by itself: in fresh environments with nothing but what it declares, the lowest versions of that in one and
# the newest in the other. In each, away from this checkout, Airflow finds it, and `airflow gym` checks, renders and runs
# the demo's benchmarks on a real Slurm. Some unit tests run with the lowest versions, too.
#
#   bash docker/packages.sh         some minutes
#   bash docker/packages.sh --all   with all unit tests, and with the demo's DAG on an Airflow of the lowest version
#
# Advisories on the newest versions are asked for where a service answers. Tools, environments and wheel are in
# GYM_PACKAGES_DIR (default: ~/.cache/airflow-gym-provider/packages), the cluster in a folder under /tmp.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
repo=$(dirname -- "$here")
# shellcheck source-path=SCRIPTDIR source=real_common.sh
. "$here/real_common.sh"
# shellcheck source=SCRIPTDIR/cluster/packages.sh
. "$here/cluster/packages.sh"

ends=(lowest newest)
benchmarks=(-b gpqa -b aime25) # mmlu_pro wants more than one job, which is a DAG's to give

make_tools() {
    local stamp
    stamp="$("$python" -V) $(sha256sum "$repo/pyproject.toml" | cut -c1-16)"
    is_complete "$home/tools" "$stamp" && return 0
    fresh_venv "$python" "$home/tools"
    install_into "$home/tools" --upgrade 'pip>=25.1'
    install_into "$home/tools" --group "$repo/pyproject.toml:package"
    mark_complete "$home/tools" "$stamp"
}

build() {
    rm -rf "$home/dist"
    "$home/tools/bin/python" -m build --no-isolation --outdir "$home/dist" "$repo" >"$home/build.log" 2>&1 ||
        { cat "$home/build.log" >&2; die "wheel and sdist could not be built"; }
    "$home/tools/bin/twine" check --strict "$home"/dist/* >&2
    wheel=$(echo "$home"/dist/*.whl)
}

# uv does not read pip's settings, where the way to an index may be.
uv() (
    index=${UV_DEFAULT_INDEX:-${PIP_INDEX_URL:-$("$home/tools/bin/python" -m pip config get global.index-url 2>/dev/null || true)}}
    [ -z "$index" ] || export UV_DEFAULT_INDEX=$index
    "$home/tools/bin/uv" --quiet "$@"
)

# install END: a wheel's requirements are not "direct" to uv, so they are given once more, as the project's.
install() {
    local end=$1 requirements=()
    rm -rf "${home:?}/$end"
    uv venv --python "$python" "$home/$end"
    [ "$end" = newest ] || requirements=(--resolution lowest-direct --requirements "$repo/pyproject.toml")
    VIRTUAL_ENV=$home/$end uv pip install "${requirements[@]}" "$wheel"
    "$home/tools/bin/python" -m pip --python "$home/$end/bin/python" check >&2
}

# inside END COMMAND...: in that environment and in a folder of its own, which is not the checkout's.
inside() {
    local end=$1
    shift
    (
        mkdir -p "$folder/$end"
        cd "$folder/$end"
        unset PYTHONPATH PYTHONHOME VIRTUAL_ENV
        export AIRFLOW_HOME=$folder/$end/home GYM_OUTPUT_PATH=$folder/$end/runs PATH=$home/$end/bin:$PATH
        "$@"
    )
}

# What is installed and not only declared: a bound that others raise is not tested here, and said.
tell_versions() {
    inside "$1" python - <<'END'
from importlib.metadata import requires, version
from packaging.requirements import Requirement

wanted = [found for found in map(Requirement, requires("airflow-gym-provider")) if not found.marker or found.marker.evaluate()]
for found in sorted(wanted, key=lambda found: found.name):
    (low,) = (part.version for part in found.specifier if part.operator == ">=")
    print(f"  {found.name} {version(found.name)} (declared: from {low} on)")
END
}

airflow_finds_it() {
    local end=$1
    inside "$end" python -c "import sys, airflow_gym_provider as gym; sys.exit(sys.prefix not in gym.__file__)" ||
        die "$end: the package is not that of the wheel"
    inside "$end" airflow providers list --output plain | grep '^airflow-gym-provider' >&2 ||
        die "$end: Airflow does not list the provider"
    inside "$end" airflow plugins --output json | grep -q 'airflow_gym_provider.ui.plugin:GymPlugin' ||
        die "$end: Airflow does not list the plugin"
}

# submits END: checks, renders and queues the demo's benchmarks, over SSH.
submits() {
    local end=$1
    mkdir -p "$folder/$end/runs"
    cp "$repo/dags/nightly_benchmarks.yaml" "$folder/$end/demo.yaml"
    inside "$end" airflow gym validate demo.yaml >&2
    inside "$end" airflow gym render demo.yaml --benchmark gpqa >"$folder/$end/job.sh"
    bash -n "$folder/$end/job.sh"
    inside "$end" airflow gym submit demo.yaml "${benchmarks[@]}" --conn-id gym_cluster --name tonight >&2
}

# ends_well END: waits for them; `status --watch` is 0 only when every benchmark is complete.
ends_well() {
    inside "$1" timeout 300 airflow gym status "$folder/$1/runs/tonight" --conn-id gym_cluster --watch >"$folder/$1/status" ||
        { cat "$folder/$1/status" >&2; die "$1: the demo's benchmarks did not end well"; }
    cat "$folder/$1/status" >&2
    [ "$(grep -c 'complete' "$folder/$1/status")" = 2 ] || die "$1: two benchmarks were to be complete"
}

# The demo's DAG, run by an Airflow of that end: its scheduler, triggerer and API server.
demo_dag() {
    local end=$1
    mkdir -p "$folder/$end/dags"
    cp "$repo"/dags/nightly_benchmarks.* "$folder/$end/dags"
    GYM_OUTPUT_PATH=$folder/$end/runs bash "$here/airflow.sh" up \
        --dir "$folder/airflow" --dags "$folder/$end/dags" --python "$home/$end/bin/python"
    (
        eval "$(bash "$here/airflow.sh" env --dir "$folder/airflow")"
        "$python" "$here/demo/watch.py" nightly_benchmarks --resumes mmlu_pro
    ) || die "$end: the demo's DAG did not end well"
    bash "$here/airflow.sh" down --dir "$folder/airflow"
}

# Rooms that lean most on other people's packages; all of them with --all.
unit_tests() {
    local rooms=(tests/unit/test_provider_info.py tests/unit/ui tests/unit/hooks/test_hook_over_ssh.py
        tests/unit/config/test_{sources,overrides,interpolation}.py)
    [ "$everything" = 0 ] || rooms=(tests/unit)
    VIRTUAL_ENV=$home/lowest uv pip install --group "$repo/pyproject.toml:test"
    (
        cd "$repo"
        unset SLURM_CONF # the cluster's, which a login's environment would not have in these tests
        AIRFLOW_HOME=$folder/lowest/home "$home/lowest/bin/python" -m pytest -q -n 2 -p no:cacheprovider "${rooms[@]}"
    )
}

# The known holes of what a user gets today. A service that names no hole of a release that is full of them knows nothing.
audit() {
    local service
    printf 'jinja2==2.10\n' >"$folder/full-of-holes"
    VIRTUAL_ENV=$home/newest uv pip freeze --exclude-editable | grep -v '^airflow-gym-provider' >"$folder/newest.txt"
    for service in pypi osv; do
        if grep -q 'CVE-\|GHSA-\|PYSEC-' <<<"$(ask "$service" "$folder/full-of-holes")"; then
            say "the advisories of $service on the newest versions:"
            ask "$service" "$folder/newest.txt"
            return
        fi
    done
    say "NOT audited: no service of advisories answers here (asked: PyPI, OSV); of known holes in dependencies nothing is said"
}

ask() {
    "$home/tools/bin/pip-audit" --vulnerability-service "$1" --requirement "$2" --no-deps --disable-pip --strict \
        --progress-spinner off --timeout 15 2>&1
}

at_exit() {
    local code=$?
    trap - EXIT INT TERM
    bash "$here/airflow.sh" down --dir "$folder/airflow" >/dev/null 2>&1 || true
    bash "$here/cluster.sh" down --dir "$folder/cluster" >/dev/null 2>&1 || true
    [ $code = 0 ] || cp -r "$folder/cluster/log" "$home/failed-cluster-log" 2>/dev/null || true
    rm -rf "$folder"
    exit $code
}

main() {
    local end began
    everything=0
    while [ $# -gt 0 ]; do
        case $1 in
            --all) everything=1 ;;
            -h | --help) sed -n '2,11s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
            *) die "unknown argument: $1 (see --help)" ;;
        esac
        shift
    done
    home=$(absolute_dir "${GYM_PACKAGES_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/airflow-gym-provider/packages}")
    take_lock "$home"
    need_python 11 13 GYM_TEST_PYTHON
    python=$(find_python 11 13 GYM_TEST_PYTHON)
    need_space "$home" 2500
    make_tools
    build
    folder=$(mktemp -d /tmp/gym-packages-XXXXXX)
    trap at_exit EXIT
    trap 'exit 130' INT TERM
    chmod 0755 "$folder"
    bash "$here/cluster.sh" up --dir "$folder/cluster"
    eval "$(bash "$here/cluster.sh" env --dir "$folder/cluster")"
    for end in "${ends[@]}"; do
        began=$SECONDS
        install "$end"
        say "$end versions, installed in $((SECONDS - began)) s:"
        tell_versions "$end" >&2
        submits "$end" # first, so that jobs run while the rest is looked at
        airflow_finds_it "$end"
    done
    for end in "${ends[@]}"; do ends_well "$end"; done
    [ "$everything" = 0 ] || demo_dag lowest
    unit_tests
    audit
    say "good at both ends after $SECONDS s"
}

main "$@"
