#!/usr/bin/env bash
# A real Airflow in one folder: database, scheduler, triggerer, DAG processor, API server; each a process of its own.
#
#   docker/airflow.sh up     [--dir DIR] [--dags FOLDER] [--python PYTHON] [--set AIRFLOW__X__Y=VALUE]...
#   docker/airflow.sh down   [--dir DIR]   end its processes and their children, and no others; the folder stays
#   docker/airflow.sh crash PART... [--dir DIR]   SIGKILL these processes and their children, as a lost machine would
#   docker/airflow.sh start  [--dir DIR]   start what does not run any more, as the last `up` did
#   docker/airflow.sh status [--dir DIR]   what runs; exit 0 only if all of it does
#   docker/airflow.sh env    [--dir DIR]   shell lines for the `airflow` command and GYM_AIRFLOW_URL, _USER, _PASSWORD
#
# DIR (or GYM_AIRFLOW_DIR; default /tmp/gym-airflow-<uid>) holds everything, AIRFLOW_HOME included. FOLDER is where DAGs
# are (default: the repository's dags/), PYTHON that of the environment with Airflow and the provider (default: python3
# on PATH). The caller's AIRFLOW_CONN_* and AIRFLOW_VAR_* are passed on; its AIRFLOW__* and AIRFLOW_HOME are not, so
# that no other Airflow's database is touched. The API server listens on loopback, on a free port that is kept.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
me=airflow
dir=${GYM_AIRFLOW_DIR:-/tmp/gym-airflow-$(id -u)}
dags=$(dirname -- "$here")/dags
python=python3
settings=()
components=(scheduler triggerer dag-processor api-server)
# shellcheck source=SCRIPTDIR/processes.sh
. "$here/processes.sh"

make_folder() {
    mkdir -p "$dir"/{run,log,home}
    [ -O "$dir" ] || die "$dir belongs to somebody else: choose another --dir"
    chmod 0700 "$dir"
    [ -s "$dir/port" ] || choose_ports 3 >"$dir/port"
    make_secret fernet_key 32
    make_secret secret_key 64
    make_secret password 9
    printf '{"admin": "%s"}\n' "$(cat "$dir/password")" >"$dir/home/passwords.json"
}

make_secret() { # NAME BYTES
    [ -s "$dir/$1" ] || (umask 077 && head -c "$2" /dev/urandom | base64 -w 0 | tr '+/' '-_' >"$dir/$1")
}

# Written once per `up`, read by everything that has to do with this Airflow.
write_settings() {
    local port secret setting
    port=$(cat "$dir/port") secret=$(cat "$dir/secret_key")
    {
        cat <<END
AIRFLOW_HOME=$dir/home
AIRFLOW__CORE__DAGS_FOLDER=$dags
AIRFLOW__CORE__LOAD_EXAMPLES=False
AIRFLOW__CORE__EXECUTOR=LocalExecutor
AIRFLOW__CORE__PARALLELISM=8
AIRFLOW__CORE__FERNET_KEY=$(cat "$dir/fernet_key")
AIRFLOW__CORE__EXECUTION_API_SERVER_URL=http://127.0.0.1:$port/execution/
AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS=admin:admin
AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE=$dir/home/passwords.json
AIRFLOW__API__HOST=127.0.0.1
AIRFLOW__API__PORT=$port
AIRFLOW__API__BASE_URL=http://127.0.0.1:$port
AIRFLOW__API__WORKERS=1
AIRFLOW__API__SECRET_KEY=$secret
AIRFLOW__API_AUTH__JWT_SECRET=$secret
AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT=$((port + 1))
AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT=$((port + 2))
AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES=1
AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL=10
GYM_AIRFLOW_DIR=$dir
GYM_AIRFLOW_URL=http://127.0.0.1:$port
GYM_AIRFLOW_USER=admin
GYM_AIRFLOW_PASSWORD=$(cat "$dir/password")
PATH=$(dirname -- "$(command -v "$python")"):$PATH
END
        for setting in "${settings[@]}"; do printf '%s\n' "$setting"; done
    } >"$dir/settings"
}

# What was chosen at `up`, exported into this shell.
load_settings() {
    local name line
    [ -s "$dir/settings" ] || die "no Airflow in $dir: run '$here/airflow.sh up --dir $dir' first"
    for name in $(compgen -e | grep -E '^AIRFLOW(_HOME|__)' || true); do unset "$name"; done
    while IFS= read -r line; do export "${line?}"; done <"$dir/settings"
}

is_healthy() {
    curl -sf --max-time 5 "$GYM_AIRFLOW_URL/api/v2/monitor/health" | python3 -c '
import json, sys
parts = json.load(sys.stdin)
wrong = {name: part["status"] for name, part in parts.items() if part["status"] != "healthy"}
print(wrong)
sys.exit(bool(wrong))'
}

start_components() {
    local name
    for name in "${components[@]}"; do
        start "$name" airflow "$name"
    done
    wait_for api-server 180 is_healthy
}

start_again() {
    load_settings
    exec 9>"$dir/lock"
    flock 9
    start_components
}

up() {
    local began=$SECONDS
    make_folder
    exec 9>"$dir/lock"
    flock 9
    write_settings
    load_settings
    command -v airflow >/dev/null || die "$python has no airflow beside it: name another with --python"
    airflow db migrate >"$dir/log/migrate.out" 2>&1 9>&- || {
        tail -n 15 "$dir/log/migrate.out" >&2
        die "airflow db migrate failed; its whole output is $dir/log/migrate.out"
    }
    start_components
    say "Airflow is up after $((SECONDS - began)) s at $GYM_AIRFLOW_URL"
}

down() {
    local name
    [ -d "$dir/run" ] || { say "nothing to end: no Airflow in $dir"; return 0; }
    exec 9>"$dir/lock"
    flock 9
    # The scheduler first: it starts tasks, and ends those that run.
    for name in "${components[@]}"; do stop "$name" 20; done
    say "Airflow in $dir is down"
}

status() {
    local name failed=0
    for name in "${components[@]}"; do
        if alive "$name"; then
            say "$name: running, process $(pid_of "$name")"
        else
            say "$name: not running"
            failed=1
        fi
    done
    load_settings
    [ $failed = 0 ] && is_healthy >/dev/null && say "healthy at $GYM_AIRFLOW_URL"
}

print_environment() {
    local line
    load_settings
    while IFS= read -r line; do
        printf 'export %s=%q\n' "${line%%=*}" "${line#*=}"
    done <"$dir/settings"
}

main() {
    local command=${1:-} parts=()
    [ $# -gt 0 ] && shift
    while [ $# -gt 0 ]; do
        case $1 in
            [!-]*)
                [ "$command" = crash ] || die "unknown argument: $1 (see $0 --help)"
                parts+=("$1")
                shift
                continue
                ;;
            --dir) dir=${2:?--dir wants a folder} ;;
            --dags) dags=$(cd -- "${2:?--dags wants a folder}" && pwd -P) ;;
            --python) python=${2:?--python wants a program} ;;
            --set) settings+=("${2:?--set wants AIRFLOW__SECTION__KEY=VALUE}") ;;
            *) die "unknown argument: $1 (see $0 --help)" ;;
        esac
        shift 2
    done
    dir=$(realpath -m "$dir")
    case $command in
        up | down | status) "$command" ;;
        crash) crash "${parts[@]:?crash wants names of: ${components[*]}}" ;;
        start) start_again ;;
        env) print_environment ;;
        -h | --help | help) sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" ;;
        *) sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
    esac
}

main "$@"
