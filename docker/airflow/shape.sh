# shellcheck shell=bash disable=SC2154  # sourced by airflow.sh, where the shared names are set
# Which parts an Airflow has, and how one of them is started.
#
# local: all of them in one home, with SQLite. celery: each has a home of its own below machines/, with its own DAG files
# and temporary files, so that a path that only one machine knows is of no use to another. What they share is PostgreSQL,
# Redis and the folder of the logs; nobody but the workers and the DAG processor gets DAG files at all.

components() {
    case $GYM_AIRFLOW_SHAPE in
        local) printf '%s\n' scheduler triggerer dag-processor api-server ;;
        celery) printf '%s\n' scheduler triggerer-1 triggerer-2 dag-processor api-server worker-1 worker-2 ;;
    esac
}

# words_of PART: the command, one word in each line.
words_of() {
    case $1 in
        worker-*) printf '%s\n' airflow celery worker --celery-hostname "$1" --skip-serve-logs ;;
        triggerer-*) printf '%s\n' airflow triggerer --skip-serve-logs ;;
        scheduler | triggerer | dag-processor | api-server) printf '%s\n' airflow "$1" ;;
        *) die "no part is called $1; there are: $(services | xargs) $(components | xargs)" ;;
    esac
}

# machine_of PART: makes the folders, and prints the settings that are this part's alone.
machine_of() {
    local home=$dir/machines/$1
    machines_here || return 0
    mkdir -p "$home"/{airflow/config,tmp,work} "$dir/task-logs"
    printf 'def name() -> str:\n    return "%s"\n' "$1" >"$home/airflow/config/machine.py"
    rm -rf "$home/dags.new"
    mkdir "$home/dags.new"
    case $1 in
        worker-* | dag-processor) cp -RL "$GYM_AIRFLOW_DAGS/." "$home/dags.new" ;;
    esac
    rm -rf "$home/dags"
    mv "$home/dags.new" "$home/dags"
    printf '%s\n' "HOME=$home" "TMPDIR=$home/tmp" "AIRFLOW_HOME=$home/airflow" "AIRFLOW__CORE__DAGS_FOLDER=$home/dags" \
        AIRFLOW__CORE__HOSTNAME_CALLABLE=machine.name
}

# part_command PART: the words that start it, environment and working directory included.
part_command() {
    local words
    words=$(words_of "$1") || exit 1
    if machines_here; then
        printf '%s\n' env --chdir="$dir/machines/$1/work"
        machine_of "$1"
    fi
    printf '%s\n' "$words"
}

run_part() { # PART, in the place of this shell
    local words
    before "$1"
    if [[ " $(services | xargs) " = *" $1 "* ]]; then
        mapfile -t words < <(service_command "$1")
    else
        mapfile -t words < <(part_command "$1")
    fi
    [ ${#words[@]} -gt 0 ] || exit 1
    exec "${words[@]}"
}

start_components() {
    local name words
    for name in $(components); do
        ! alive "$name" || continue
        mapfile -t words < <(part_command "$name")
        start "$name" "${words[@]}"
    done
    wait_for api-server 180 is_healthy
}

is_healthy() {
    curl -sf --max-time 5 "$GYM_AIRFLOW_URL/api/v2/monitor/health" | python3 -c '
import json, sys
parts = json.load(sys.stdin)
wrong = {name: part["status"] for name, part in parts.items() if part["status"] != "healthy"}
print(wrong)
sys.exit(bool(wrong))'
}
