# shellcheck shell=bash disable=SC2154  # sourced by cluster.sh after common.sh, where the shared names are set
# The daemons, in the order in which they need each other.

start_daemons() {
    start_switch
    start munged munged --foreground --force --key-file="$dir/state/munge.key" --socket="$dir/run/munge/socket" \
        --log-file="$dir/log/munged.log" --pid-file="$dir/run/munge/pid" --seed-file="$dir/state/munge.seed"
    start_database
    wait_for munged 10 munge -S "$dir/run/munge/socket" -n
    start slurmdbd slurmdbd -D
    wait_for slurmdbd 30 accounting_answers
    register_accounts
    start_in_node_world slurmctld slurmctld -D
    wait_for slurmctld 30 scontrol ping
    local node
    for node in "${nodes[@]}"; do
        start_node "$node" slurmd -D -N "$node"
    done
    start_sshd
    repair_nodes
}

start_database() {
    local data=$dir/state/database options
    # A folder of its own for temporary tables: a server that starts removes those of others from /tmp.
    mkdir -p "$dir/state/tmp"
    options=(--no-defaults --datadir="$data" --tmpdir="$dir/state/tmp" --user="$(id -un)"
        --socket="$dir/run/database.sock"
        --bind-address=127.0.0.1 --innodb-buffer-pool-size=64M --innodb-log-file-size=32M
        --innodb-lock-wait-timeout=900 --performance-schema=OFF)
    if [ ! -d "$data/mysql" ]; then
        rm -rf "$data"
        mariadb-install-db "${options[@]}" --auth-root-authentication-method=normal --skip-test-db \
            >"$dir/log/mariadb-install.out" 2>&1 || {
            tail -n 15 "$dir/log/mariadb-install.out" >&2
            die "the database cannot be made: see $dir/log/mariadb-install.out"
        }
    fi
    start mariadbd mariadbd "${options[@]}" --port="$database_port" --pid-file="$dir/run/database.pid"
    wait_for mariadbd 30 database_shell <<<'SELECT 1;'
    database_shell <<END
CREATE DATABASE IF NOT EXISTS slurm;
CREATE USER IF NOT EXISTS 'slurm'@'localhost', 'slurm'@'127.0.0.1';
ALTER USER 'slurm'@'localhost' IDENTIFIED BY '$(cat "$dir/state/password")';
ALTER USER 'slurm'@'127.0.0.1' IDENTIFIED BY '$(cat "$dir/state/password")';
GRANT ALL ON slurm.* TO 'slurm'@'localhost', 'slurm'@'127.0.0.1';
END
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

start_sshd() {
    # sshd as root insists on this folder, which systemd would have made.
    [ "$(id -u)" != 0 ] || mkdir -p /run/sshd
    start_in_node_world sshd "$(command -v sshd)" -D -e -f "$dir/etc/sshd_config"
    wait_for sshd 10 ssh-keyscan -t ed25519 -T 2 -p "$ssh_port" 127.0.0.1
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
