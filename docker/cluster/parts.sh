# shellcheck shell=bash disable=SC2154  # sourced by cluster.sh after common.sh, where the shared names are set
# Each part of the cluster by itself: its command, what has to be there before, and whether it is well. `up` starts all of
# them on this machine; `run` one, in the foreground, which is what a container or a supervisor wants.

# check_part NAME
check_part() {
    local part
    for part in "${daemons[@]}"; do
        [ "$part" = switch ] || [ "$part" != "${1:-}" ] || return 0
    done
    die "no part is called '${1:-}'; there are: ${daemons[*]}"
}

# words_of PART: the command, one word in each line.
words_of() {
    case $1 in
        munged)
            printf '%s\n' munged --foreground --force --key-file="$dir/state/munge.key" --socket="$dir/run/munge/socket" \
                --log-file="$dir/log/munged.log" --pid-file="$dir/run/munge/pid" --seed-file="$dir/run/munge/seed"
            ;;
        mariadbd)
            database_options
            printf '%s\n' --port="$database_port" --pid-file="$dir/run/database.pid" --init-file="$dir/run/grants.sql"
            ;;
        slurmdbd | slurmctld) printf '%s\n' "$1" -D ;;
        slurmd-*) printf '%s\n' slurmd -D -N "${1#slurmd-}" ;;
        sshd) printf '%s\n' "$(command -v sshd)" -D -e -f "$dir/etc/sshd_config" ;;
    esac
}

# before PART: what its command needs to find.
before() {
    case $1 in
        mariadbd) make_database ;;
        slurmctld) register_accounts ;;
        # sshd as root insists on this folder, which systemd would have made.
        sshd) [ "$(id -u)" != 0 ] || mkdir -p /run/sshd ;;
    esac
}

# answers PART: exit 0 if it is well; the last words of what was asked if it is not.
answers() {
    case $1 in
        munged) munge -S "$dir/run/munge/socket" -n ;;
        mariadbd) database_shell <<<'SELECT 1;' ;;
        slurmdbd) accounting_answers ;;
        slurmctld) scontrol ping ;;
        slurmd-*) node_is_usable "${1#slurmd-}" ;;
        sshd) ssh-keyscan -t ed25519 -T 2 -p "$ssh_port" 127.0.0.1 ;;
    esac
}

# run PART: in the foreground. A host of its own has a munged of its own, too, which lives and ends with the part.
run() {
    local part=$1 words
    ! separate_nodes || die "run: not with --separate-nodes, where one process holds the network of all"
    prepare_names
    if own_hosts && [[ $part != @(munged|mariadbd) ]]; then
        mkdir -p "$dir/run/munge"
        start_part munged 10
    fi
    before "$part"
    mapfile -t words < <(words_of "$part")
    words=("${node_world[@]}" "${words[@]}")
    if alive munged && own_hosts; then run_beside munged "${words[@]}"; else exec "${words[@]}"; fi
}

# run_beside OTHER COMMAND...: until one of the two ends, or this shell is asked to; then neither is left.
run_beside() {
    local other=$1 process code=0
    shift
    "$@" &
    process=$!
    trap 'kill -TERM "$process" 2>/dev/null || true' TERM INT
    wait -n "$process" "$(pid_of "$other")" || code=$?
    kill -TERM "$process" 2>/dev/null || true
    wait "$process" || true
    stop "$other"
    exit "$code"
}

# start_part PART SECONDS: in the background, and until it is well.
start_part() {
    local words
    alive "$1" || before "$1"
    mapfile -t words < <(words_of "$1")
    case $1 in
        slurmd-*) start_node "${1#slurmd-}" "${words[@]}" ;;
        slurmctld | sshd) start_in_node_world "$1" "${words[@]}" ;;
        *) start "$1" "${words[@]}" ;;
    esac
    [ "$2" = 0 ] || wait_for "$1" "$2" answers "$1"
}
