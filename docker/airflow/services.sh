# shellcheck shell=bash disable=SC2154  # sourced by airflow.sh, where the shared names are set
# What an Airflow of several machines needs beside it: PostgreSQL and Redis, the distribution's, with data, configuration
# and ports of their own. Neither forces its data to disk: they outlive a killed process, not a machine without power.

services() {
    [ "$GYM_AIRFLOW_SHAPE" = local ] || printf '%s\n' database broker
}

# Debian keeps PostgreSQL's programs off PATH, one folder for each version.
postgres_program() {
    find /usr/lib/postgresql/*/bin "$(dirname -- "$(command -v "$1" || echo /usr/bin/x)")" -name "$1" 2>/dev/null |
        sort -V | tail -n 1
}

missing_services() {
    [ -n "$(postgres_program initdb)" ] || printf 'postgres '
    command -v redis-server >/dev/null || printf 'redis-server '
}

install_services() {
    [ -z "$(services)" ] ||
        install_from_distribution "PostgreSQL and Redis" missing_services postgresql redis-server
}

# PostgreSQL refuses root.
as_database_user() {
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid=postgres --regid=postgres --clear-groups "$@"
    else
        "$@"
    fi
}

make_database() {
    local data=$dir/database/data password=$dir/database/password
    [ -s "$data/PG_VERSION" ] && return 0
    rm -rf "$data"
    mkdir -p "$data"
    chmod 0700 "$dir/database" "$data"
    (umask 077 && cp "$dir/database_password" "$password")
    [ "$(id -u)" != 0 ] || chown -R postgres: "$dir/database"
    as_database_user test -w "$data" ||
        die "$data cannot be reached by the user postgres: choose a --dir below a folder that all may enter"
    as_database_user "$(postgres_program initdb)" --pgdata="$data" --username=airflow --encoding=UTF8 --locale=C.UTF-8 \
        --auth=scram-sha-256 --pwfile="$password" --no-sync >"$dir/log/initdb.out" 2>&1 || {
        tail -n 15 "$dir/log/initdb.out" >&2
        die "the database cannot be made: see $dir/log/initdb.out"
    }
    rm "$password"
    as_database_user tee -a "$data/postgresql.conf" >/dev/null <<END
listen_addresses = '$(listen_address)'
port = $(port_of database)
unix_socket_directories = ''
max_connections = 200
fsync = off
full_page_writes = off
synchronous_commit = off
END
    ! own_hosts || echo 'host airflow,postgres airflow samenet scram-sha-256' >>"$data/pg_hba.conf"
}

database_shell() { # DATABASE ARGUMENT...
    PGPASSWORD=$(cat "$dir/database_password") psql --no-psqlrc -qtA -v ON_ERROR_STOP=1 \
        "host=$(address_of database) port=$(port_of database) user=airflow dbname=$1" "${@:2}"
}

broker_answers() {
    REDISCLI_AUTH=$(cat "$dir/broker_password") redis-cli -h "$(address_of broker)" -p "$(port_of broker)" ping | grep -qx PONG
}

make_broker() {
    mkdir -p "$dir/broker"
    chmod 0700 "$dir/broker"
    (umask 077 && cat >"$dir/broker/redis.conf") <<END
bind $(listen_address)
port $(port_of broker)
requirepass $(cat "$dir/broker_password")
dir $dir/broker
save ""
appendonly yes
appendfsync no
END
}

# service_command NAME: its words, one in each line.
service_command() {
    case $1 in
        database)
            [ "$(id -u)" != 0 ] || printf '%s\n' setpriv --reuid=postgres --regid=postgres --clear-groups
            printf '%s\n' "$(postgres_program postgres)" -D "$dir/database/data"
            ;;
        broker) printf '%s\n' redis-server "$dir/broker/redis.conf" ;;
    esac
}

start_services() {
    local name words
    [ -n "$(services)" ] || return 0
    make_database
    make_broker
    for name in $(services); do
        mapfile -t words < <(service_command "$name")
        start "$name" "${words[@]}"
    done
    wait_for database 30 database_shell postgres -c 'SELECT 1'
    wait_for broker 10 broker_answers
    create_database
}

create_database() {
    [ -n "$(database_shell postgres -c "SELECT 1 FROM pg_database WHERE datname = 'airflow'")" ] ||
        database_shell postgres -c 'CREATE DATABASE airflow'
}

stop_services() {
    [ -n "$(services)" ] || return 0
    # For PostgreSQL SIGTERM means: once everybody has left.
    ! alive database || kill -INT "$(pid_of database)" 2>/dev/null || true
    stop broker
    stop database
}
