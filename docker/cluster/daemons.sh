# shellcheck shell=bash disable=SC2154  # sourced by cluster.sh after common.sh, where the shared names are set
# The daemons, in the order in which they need each other.

start_daemons() {
    local node
    start_switch
    start_part munged 10
    start_part mariadbd 30
    start_part slurmdbd 30
    start_part slurmctld 30
    for node in "${nodes[@]}"; do start_part "slurmd-$node" 0; done
    start_part sshd 10
    repair_nodes
}

database_options() {
    # A folder of its own for temporary tables: a server that starts removes those of others from /tmp.
    printf '%s\n' mariadbd --no-defaults --datadir="$dir/state/database" --tmpdir="$dir/run/tmp" --user="$(id -un)" \
        --socket="$dir/run/database.sock" --bind-address="$(listen_address)" --innodb-buffer-pool-size=64M \
        --innodb-log-file-size=32M --innodb-lock-wait-timeout=900 --performance-schema=OFF
}

# The server reads its grants when it starts: one statement in each line.
make_database() {
    local data=$dir/state/database options account accounts=("'slurm'@'localhost'" "'slurm'@'127.0.0.1'")
    mkdir -p "$dir/run/tmp"
    mapfile -t options < <(database_options)
    if [ ! -d "$data/mysql" ]; then
        mkdir -p "$data"
        find "$data" -mindepth 1 -delete # by itself it may be a mount
        mariadb-install-db "${options[@]:1}" --auth-root-authentication-method=normal --skip-test-db \
            >"$dir/log/mariadb-install.out" 2>&1 || {
            tail -n 15 "$dir/log/mariadb-install.out" >&2
            die "the database cannot be made: see $dir/log/mariadb-install.out"
        }
    fi
    ! own_hosts || accounts=("'slurm'@'%'")
    (
        umask 077
        echo 'CREATE DATABASE IF NOT EXISTS slurm;'
        for account in "${accounts[@]}"; do
            echo "CREATE USER IF NOT EXISTS $account;"
            echo "ALTER USER $account IDENTIFIED BY '$(cat "$dir/state/password")';"
            echo "GRANT ALL ON slurm.* TO $account;"
        done
    ) >"$dir/run/grants.sql"
}

database_shell() { # SQL on standard input
    mariadb --no-defaults --user=root --socket="$dir/run/database.sock"
}

# sacctmgr exits 0 even when it cannot connect; only an empty error stream is an answer.
accounting_answers() {
    local problems
    problems=$(sacctmgr -n show cluster 2>&1 >/dev/null)
    [ -z "$problems" ] || { printf '%s\n' "$problems"; return 1; }
}

# slurmctld refuses to start for a cluster that accounting has never heard of.
register_accounts() {
    local user
    [ -n "$(sacctmgr -nP show cluster gym format=cluster)" ] || sacctmgr -iQ add cluster gym >/dev/null
    [ -n "$(sacctmgr -nP show account eval format=account)" ] ||
        sacctmgr -iQ add account eval Description=evaluations Organization=gym >/dev/null
    for user in root "$(id -un)" ${SUDO_USER:+"$SUDO_USER"}; do
        [ -n "$(sacctmgr -nP show assoc user="$user" account=eval format=user)" ] ||
            sacctmgr -iQ add user "$user" Account=eval DefaultAccount=eval AdminLevel=Administrator >/dev/null
    done
}

node_is_usable() {
    # Not by sinfo's --states: it leaves out nodes that an exclusive job has.
    [[ $(sinfo -h -n "$1" -p debug -o %T) =~ ^(idle|mixed|allocated|completing)$ ]]
}

# A node that a test set down, or that was lost with its daemon, comes back.
repair_nodes() {
    local node
    for node in "${nodes[@]}"; do
        case $(sinfo -h -n "$node" -p debug -o %T) in
            down* | drain* | fail*) scontrol update nodename="$node" state=resume 2>/dev/null || true ;;
        esac
    done
    for node in "${nodes[@]}"; do
        wait_for "slurmd-$node" 30 node_is_usable "$node"
    done
}

sinfo_line() {
    sinfo -h -o '%P %D nodes %G' | tr '\n' ';'
}

# Jobs first, so that no step outlives its node; then the daemons, the last started first.
stop_daemons() {
    local index tenths=80
    if alive slurmctld; then
        # shellcheck disable=SC2046  # one word per job id
        scancel --full $(squeue -h -o %A 2>/dev/null) 2>/dev/null || true
        while [ -n "$(squeue -h -o %A 2>/dev/null)" ] && [ $((tenths--)) -gt 0 ]; do sleep 0.1; done
    fi
    for ((index = ${#daemons[@]} - 1; index >= 0; index--)); do
        # A node that is a machine of its own is switched off: its first process would not heed a signal from outside.
        case ${daemons[index]} in
            slurmd-*) if separate_nodes; then stop "${daemons[index]}" 0; else stop "${daemons[index]}"; fi ;;
            *) stop "${daemons[index]}" ;;
        esac
    done
    stop_step_managers
}

# A step's manager leaves its node daemon's session, but keeps the node's log open.
stop_step_managers() {
    local pid
    for pid in $(pgrep -u "$(id -u)" slurmstepd || true); do
        find "/proc/$pid/fd" -lname "$dir/log/*" 2>/dev/null | grep -q . && kill -KILL "$pid" 2>/dev/null
    done
    return 0
}
