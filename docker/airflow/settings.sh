# shellcheck shell=bash disable=SC2154  # sourced by airflow.sh, where the shared names are set
# What an Airflow is made of: its folder, its secrets, and the settings that all of its parts share.

make_folder() {
    mkdir -p "$dir"/{run,log,home}
    [ -O "$dir" ] || die "$dir belongs to somebody else: choose another --dir"
    chmod 0700 "$dir"/{run,log,home}
    # PostgreSQL's user goes through, and sees nothing.
    if [ "$shape" = local ]; then chmod 0700 "$dir"; else chmod 0711 "$dir"; fi
    own_hosts || [ -s "$dir/port" ] || choose_ports 5 >"$dir/port"
    make_secret fernet_key 32
    make_secret secret_key 64
    make_secret password 9
    make_secret database_password 18
    make_secret broker_password 18
    (umask 077 && printf '{"admin": "%s"}\n' "$(cat "$dir/password")" >"$dir/home/passwords.json")
}

make_secret() { # NAME BYTES
    [ -s "$dir/$1" ] || (umask 077 && head -c "$2" /dev/urandom | base64 -w 0 | tr '+/' '-_' >"$dir/$1")
}

# port_of PART: neighbours, from the first that was found free.
port_of() {
    local offset
    if own_hosts; then
        port_on_own_host "$1"
        return
    fi
    case $1 in
        api-server) offset=0 ;;
        trigger-logs) offset=1 ;;
        worker-logs) offset=2 ;;
        database) offset=3 ;;
        broker) offset=4 ;;
        *) die "nothing listens for $1" ;;
    esac
    echo $(($(cat "$dir/port") + offset))
}

# Written once per `up`, read by everything that has to do with this Airflow.
write_settings() ( # in a shell of its own, for its umask
    local port secret setting api
    umask 077
    port=$(port_of api-server) secret=$(cat "$dir/secret_key")
    api=http://$(address_of api-server):$port
    {
        cat <<END
AIRFLOW_HOME=$(home_of_airflow)
AIRFLOW__CORE__DAGS_FOLDER=$dags
AIRFLOW__CORE__LOAD_EXAMPLES=False
AIRFLOW__CORE__EXECUTOR=LocalExecutor
AIRFLOW__CORE__PARALLELISM=8
AIRFLOW__CORE__FERNET_KEY=$(cat "$dir/fernet_key")
AIRFLOW__CORE__EXECUTION_API_SERVER_URL=$api/execution/
AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS=admin:admin
AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE=$dir/home/passwords.json
AIRFLOW__API__HOST=$(listen_address)
AIRFLOW__API__PORT=$port
AIRFLOW__API__BASE_URL=$api
AIRFLOW__API__WORKERS=1
AIRFLOW__API__SECRET_KEY=$secret
AIRFLOW__API_AUTH__JWT_SECRET=$secret
AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT=$(port_of trigger-logs)
AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT=$(port_of worker-logs)
AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES=1
AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL=10
GYM_AIRFLOW_DIR=$dir
GYM_AIRFLOW_SHAPE=$shape
GYM_AIRFLOW_DAGS=$dags
GYM_AIRFLOW_URL=$api
GYM_AIRFLOW_USER=admin
GYM_AIRFLOW_PASSWORD=$(cat "$dir/password")
PATH=$(dirname -- "$(command -v "$python")"):$PATH
END
        "settings_of_$shape"
        for setting in "${settings[@]}"; do printf '%s\n' "$setting"; done
    } >"$dir/settings.new"
    mv "$dir/settings.new" "$dir/settings"
)

# SQLite has one writer at a time: the others wait, by default five seconds, and then fail a request or a task.
settings_of_local() {
    echo "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=sqlite:///$(home_of_airflow)/airflow.db?timeout=60"
}

# The later of two lines counts. Logs are in one folder, as on the shared volume of Airflow's compose file and chart.
settings_of_celery() {
    local database broker
    database=airflow:$(cat "$dir/database_password")@$(address_of database):$(port_of database)/airflow
    broker=:$(cat "$dir/broker_password")@$(address_of broker):$(port_of broker)
    cat <<END
AIRFLOW__CORE__EXECUTOR=CeleryExecutor
AIRFLOW__CORE__PARALLELISM=16
AIRFLOW__DATABASE__SQL_ALCHEMY_CONN=postgresql+psycopg2://$database
AIRFLOW__CELERY__BROKER_URL=redis://$broker/0
AIRFLOW__CELERY__RESULT_BACKEND=db+postgresql+psycopg2://$database
AIRFLOW__CELERY__WORKER_CONCURRENCY=8
AIRFLOW__LOGGING__BASE_LOG_FOLDER=$dir/task-logs
END
}

# What was chosen at `up`, exported into this shell.
load_settings() {
    local name line
    [ -s "$dir/settings" ] || die "no Airflow in $dir: run '$here/airflow.sh up --dir $dir' first"
    for name in $(compgen -e | grep -E '^AIRFLOW(_HOME|__)' || true); do unset "$name"; done
    while IFS= read -r line; do export "${line?}"; done <"$dir/settings"
}

print_environment() {
    local line
    load_settings
    while IFS= read -r line; do
        printf 'export %s=%q\n' "${line%%=*}" "${line#*=}"
    done <"$dir/settings"
}
