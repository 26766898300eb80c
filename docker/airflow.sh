#!/usr/bin/env bash
# A real Airflow in one folder: database, scheduler, triggerer, DAG processor, API server; each a process of its own.
#
#   docker/airflow.sh up     [--dir DIR] [--dags FOLDER] [--python PYTHON] [--celery] [--set AIRFLOW__X__Y=VALUE]...
#   docker/airflow.sh down   [--dir DIR]   end its processes and their children, and no others; the folder stays
#   docker/airflow.sh crash PART... [--dir DIR]   SIGKILL these processes and their children, as a lost machine would
#   docker/airflow.sh start  [--dir DIR]   start what does not run any more, as the last `up` did
#   docker/airflow.sh run PART [--dir DIR]   one part in the foreground, with the settings of the last `up`
#   docker/airflow.sh answers PART [--dir DIR]   exit 0 if this part is well
#   docker/airflow.sh status [--dir DIR]   what runs; exit 0 only if all of it does
#   docker/airflow.sh env    [--dir DIR]   shell lines for the `airflow` command and GYM_AIRFLOW_URL, _USER, _PASSWORD
#
# up --celery makes it several machines, as far as files go: PostgreSQL, Redis, two workers and two triggerers, and each
# of Airflow's parts has a home, a folder for temporary files and a copy of the DAGs of its own. See airflow/shape.sh.
# In containers each part is run on a host of its own: `install`, `prepare`, `run database`, `migrate [--connections FILE]`,
# then `run` for the others. See airflow/hosts.sh and compose.yaml.
#
# DIR (or GYM_AIRFLOW_DIR; default /tmp/gym-airflow-<uid>) holds everything, AIRFLOW_HOME included. FOLDER is where DAGs
# are (default: the repository's dags/), PYTHON that of the environment with Airflow and the provider (default: python3
# on PATH). The caller's AIRFLOW_CONN_* and AIRFLOW_VAR_* are passed on; its AIRFLOW__* and AIRFLOW_HOME are not, so
# that no other Airflow's database is touched. All ports are on loopback, free ones that are kept.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
me=airflow
dir=${GYM_AIRFLOW_DIR:-/tmp/gym-airflow-$(id -u)}
dags=$(dirname -- "$here")/dags
python=python3
shape=local
settings=()
connections=""
# shellcheck source=SCRIPTDIR/processes.sh
. "$here/processes.sh"
# shellcheck source=SCRIPTDIR/cluster/packages.sh
. "$here/cluster/packages.sh"
# shellcheck source=SCRIPTDIR/airflow/settings.sh
. "$here/airflow/settings.sh"
# shellcheck source=SCRIPTDIR/airflow/services.sh
. "$here/airflow/services.sh"
# shellcheck source=SCRIPTDIR/airflow/shape.sh
. "$here/airflow/shape.sh"
# shellcheck source=SCRIPTDIR/airflow/hosts.sh
. "$here/airflow/hosts.sh"

usage() { sed -n '2,22s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

start_again() {
    load_settings
    exec 9>"$dir/lock"
    flock 9
    start_services
    start_components
}

up() {
    local began=$SECONDS
    ! own_hosts || die "the parts of $dir have hosts of their own; run each on its host: $0 run PART --dir $dir"
    make_folder
    exec 9>"$dir/lock"
    flock 9
    write_settings
    load_settings
    command -v airflow >/dev/null || die "$python has no airflow beside it: name another with --python"
    install_services
    start_services
    airflow db migrate >"$dir/log/migrate.out" 2>&1 9>&- || {
        tail -n 15 "$dir/log/migrate.out" >&2
        die "airflow db migrate failed; its whole output is $dir/log/migrate.out"
    }
    start_components
    say "Airflow is up after $((SECONDS - began)) s at $GYM_AIRFLOW_URL"
}

down() {
    local name
    [ -s "$dir/settings" ] || { say "nothing to end: no Airflow in $dir"; return 0; }
    load_settings
    exec 9>"$dir/lock"
    flock 9
    # The scheduler first: it starts tasks, and ends those that run.
    for name in $(components); do stop "$name" 20; done
    stop_services
    say "Airflow in $dir is down"
}

status() {
    local name failed=0
    load_settings
    for name in $(services) $(components); do
        if alive "$name"; then
            say "$name: running, process $(pid_of "$name")"
        else
            say "$name: not running"
            failed=1
        fi
    done
    [ $failed = 0 ] && is_healthy >/dev/null && say "healthy at $GYM_AIRFLOW_URL"
}

crash_parts() {
    load_settings
    [ $# -gt 0 ] || die "crash wants names of: $(services | xargs) $(components | xargs)"
    crash "$@"
}

main() {
    local command=${1:-} parts=()
    [ $# -gt 0 ] && shift
    while [ $# -gt 0 ]; do
        case $1 in
            [!-]*)
                [[ $command =~ ^(crash|run|answers)$ ]] || die "unknown argument: $1 (see $0 --help)"
                parts+=("$1")
                shift
                continue
                ;;
            --celery)
                shape=celery
                shift
                continue
                ;;
            --dir) dir=${2:?--dir wants a folder} ;;
            --dags) dags=$(cd -- "${2:?--dags wants a folder}" && pwd -P) ;;
            --connections) connections=${2:?--connections wants a file, as for airflow connections import} ;;
            --python) python=${2:?--python wants a program} ;;
            --set) settings+=("${2:?--set wants AIRFLOW__SECTION__KEY=VALUE}") ;;
            *) die "unknown argument: $1 (see $0 --help)" ;;
        esac
        shift 2
    done
    dir=$(realpath -m "$dir")
    case $command in
        up | down | status) "$command" ;;
        crash) crash_parts "${parts[@]}" ;;
        run) load_settings && run_part "${parts[@]:?run wants the name of a part}" ;;
        answers) load_settings && answers "${parts[@]:?answers wants the name of a part}" ;;
        prepare | migrate) "$command" ;;
        install) GYM_AIRFLOW_SHAPE=celery install_services ;;
        start) start_again ;;
        env) print_environment ;;
        -h | --help | help) usage ;;
        *) usage >&2; exit 2 ;;
    esac
}

main "$@"
