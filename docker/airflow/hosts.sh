# shellcheck shell=bash disable=SC2154,SC2034  # sourced by airflow.sh, where the shared names are set
# An Airflow whose parts run on hosts of their own, as containers do, each host called as its part. They share DIR with its
# settings and secrets, which most of them only read, and in it task-logs/. Who brings the hosts up sees to their names.

own_hosts() { [ -e "$dir/own-hosts" ]; }

machines_here() { [ "$GYM_AIRFLOW_SHAPE" = celery ] && ! own_hosts; }

address_of() { if own_hosts; then echo "$1"; else echo 127.0.0.1; fi; } # PART

listen_address() { if own_hosts; then echo 0.0.0.0; else echo 127.0.0.1; fi; }

port_on_own_host() {
    case $1 in
        api-server) echo 8080 ;;
        trigger-logs) echo 8794 ;;
        worker-logs) echo 8793 ;;
        database) echo 5432 ;;
        broker) echo 6379 ;;
        *) die "nothing listens for $1" ;;
    esac
}

# What Airflow writes for itself is each host's own affair.
home_of_airflow() { if own_hosts; then echo "$HOME/airflow"; else echo "$dir/home"; fi; }

# prepare: settings and secrets, kept when they are there; nothing is started.
prepare() {
    [ ! -e "$dir/port" ] || die "the Airflow in $dir is all on this machine: choose another --dir"
    mkdir -p "$dir"
    : >"$dir/own-hosts"
    shape=celery
    make_folder
    mkdir -p "$dir"/{database,broker,task-logs}
    write_settings
}

# migrate: the database's tables, and the connections in a file. Before any of Airflow's own parts.
migrate() {
    load_settings
    create_database
    airflow db migrate
    [ -z "$connections" ] || airflow connections import --overwrite "$connections"
}

# before PART: what has to be there; `up` has seen to it.
before() {
    case $1 in
        database) make_database ;;
        broker) make_broker ;;
    esac
}

# answers PART: exit 0 if it is well. Airflow's own daemons say so by heartbeats, a worker when it is asked.
answers() {
    case $1 in
        database) database_shell postgres -c 'SELECT 1' ;;
        broker) broker_answers ;;
        api-server) curl -sSf --max-time 5 "$GYM_AIRFLOW_URL/api/v2/version" ;;
        scheduler | dag-processor) heart_beats "${1//-/_}" ;;
        triggerer*) heart_beats triggerer ;;
        worker-*)
            celery --app airflow.providers.celery.executors.celery_executor.app inspect ping \
                --destination "celery@$1" --timeout 10
            ;;
        *) die "no part is called $1; there are: $(services | xargs) $(components | xargs)" ;;
    esac
}

heart_beats() {
    curl -sSf --max-time 5 "$GYM_AIRFLOW_URL/api/v2/monitor/health" |
        python3 -c 'import json, sys; sys.exit(json.load(sys.stdin)[sys.argv[1]]["status"] != "healthy")' "$1"
}
