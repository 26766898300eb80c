# shellcheck shell=bash disable=SC2154  # sourced by cluster.sh after common.sh, where the shared names are set
# Jobs reach each other by node name (http://n2:8000), so n1..n4 must resolve to this machine where jobs run. Each has
# an address of its own (see machines.sh), so that servers on two "nodes" can use the same port if they bind their
# node's address.
#
# As root, the node daemons and the sshd get their own view of /etc/hosts (a private mount), and the machine's file
# stays as it is. Where that is not allowed (an unprivileged container, a user with sudo), four lines are added to it.

names_resolve() {
    local node
    for node in "${nodes[@]}"; do
        getent ahostsv4 "$node" | grep -q '^127\.' || return 1
    done
}

private_names_work() {
    [ "$(id -u)" = 0 ] && unshare --mount --propagation slave mount --bind "$dir/etc/hosts" /etc/hosts 2>/dev/null
}

hosts_lines() {
    local number=0 node
    for node in "${nodes[@]}"; do
        number=$((number + 1))
        printf '%s %s # node of the Slurm on this machine (docker/cluster.sh)\n' "$(node_address $number)" "$node"
    done
}

# Decides once per bring-up how commands started by in_node_world see the names.
prepare_names() {
    node_world=()
    ! own_hosts || return 0
    { hosts_lines; cat /etc/hosts; } >"$dir/etc/hosts"
    if private_names_work; then
        # shellcheck disable=SC2016  # expanded by the inner shell
        node_world=(unshare --mount --propagation slave
            sh -c 'mount --bind "$1" /etc/hosts && shift && exec "$@"' sh "$dir/etc/hosts")
    elif ! names_resolve; then
        can_be_root || die "the names ${nodes[*]} must resolve to this machine; append to /etc/hosts:
$(hosts_lines)"
        say "adding the node names ${nodes[*]} to /etc/hosts"
        hosts_lines | as_root tee -a /etc/hosts >/dev/null
        names_resolve || die "the names ${nodes[*]} do not resolve to this machine although /etc/hosts says so"
    fi
}

# start_in_node_world NAME COMMAND...: start() with the node names in sight.
start_in_node_world() {
    local name=$1
    shift
    start "$name" "${node_world[@]}" "$@"
}
