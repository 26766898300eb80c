# shellcheck shell=bash disable=SC2154  # sourced by cluster.sh after common.sh, where the shared names are set
# With --separate-nodes, n1..n4 are machines as far as programs can tell: each node daemon gets a network, processes, a
# host name and a /tmp/ray of its own, and its jobs with it. localhost is then that node alone, the same port is free on
# every node, and programs that find each other over the network, such as Ray, have to do so. Files are shared, as on
# a cluster. It takes root, and the right to make namespaces, which containers often lack.
#
# Everything hangs on one process, the switch: the nodes' cables end in its network, where no firewall rule of this
# machine applies. When it ends, the cables are gone, and nothing is left to be removed.

separate_nodes() { [ -e "$dir/separate-nodes" ]; }

# The first three numbers of the nodes' addresses, others for each cluster of this machine: 10.x.y for separate nodes;
# otherwise 127.x.y, which is this machine too.
network() {
    local number=$(((port_base - 21000) / 8))
    if separate_nodes; then
        printf '10.%s.%s' $((200 + number / 250)) $((number % 250))
    else
        printf '127.%s.%s' $((10 + number / 250)) $((number % 250))
    fi
}

# Where daemons of the nodes find those of the cluster.
control_address() { if separate_nodes; then printf '%s.254' "$(network)"; else printf 127.0.0.1; fi; }

# With --own-hosts each part runs on a host that is called as it is; who brings the hosts up sees to the names.
own_hosts() { [ -e "$dir/own-hosts" ]; }

choose_own_hosts() {
    own_hosts && return 0
    [ ! -e "$dir/ports" ] || die "the cluster in $dir is all on this machine: choose another --dir"
    : >"$dir/own-hosts"
}

# host_of PART: the name that its machine gives itself.
host_of() {
    if ! own_hosts; then
        echo localhost
        return
    fi
    case $1 in
        slurmd-*) echo "${1#slurmd-}" ;;
        sshd) echo login ;;
        *) echo "$1" ;;
    esac
}

# address_of PART: where the other parts reach it. Where it listens is another matter.
address_of() {
    case $1 in
        *) if own_hosts; then host_of "$1"; return; fi ;;&
        slurmd-*) node_daemon_address "${1#slurmd-n}" ;;
        slurmctld | slurmdbd) control_address ;;
        *) echo 127.0.0.1 ;;
    esac
}

listen_address() { if own_hosts; then echo 0.0.0.0; else echo 127.0.0.1; fi; }

node_address() { printf '%s.%s' "$(network)" "$1"; } # NUMBER

# Where the controller reaches the node daemon, which listens everywhere.
node_daemon_address() { if separate_nodes; then node_address "$1"; else printf 127.0.0.1; fi; }

choose_separate_nodes() {
    separate_nodes && return 0
    [ ! -e "$dir/ports" ] || die "the cluster in $dir has nodes that share this machine: choose another --dir"
    [ "$(id -u)" = 0 ] || die "--separate-nodes takes root: sudo bash $0 up --separate-nodes --dir $dir"
    unshare --net --uts --mount --pid --fork --mount-proc true 2>/dev/null ||
        die "--separate-nodes: this machine does not let us make namespaces (a container without the right to?)"
    : >"$dir/separate-nodes"
}

in_network_of() { # PID COMMAND...
    nsenter --net="/proc/$1/ns/net" "${@:2}"
}

has_own_network() { [ "$(readlink "/proc/$1/ns/net")" != "$(readlink /proc/self/ns/net)" ]; }

# plug NAME PID INTERFACE ADDRESS: a cable from the switch to the network of process PID.
plug() {
    local switch
    switch=$(pid_of switch)
    in_network_of "$2" ip link show "$3" >/dev/null 2>&1 && return 0
    in_network_of "$switch" ip link add "$1" type veth peer name "$3" netns "$2"
    in_network_of "$switch" ip link set "$1" master switch up
    in_network_of "$2" ip address add "$4/24" dev "$3"
    in_network_of "$2" ip link set lo up
    in_network_of "$2" ip link set "$3" up
}

start_switch() {
    separate_nodes || return 0
    start switch unshare --net sh -c 'ip link add switch type bridge && ip link set switch up && exec sleep infinity'
    wait_for switch 10 in_network_of "$(pid_of switch)" ip link show switch up
    plug control $$ "gym$port_base" "$(control_address)"
}

# start_node NAME COMMAND...: the node daemon, and in its own world if it is to have one. The first process there is a
# shell, since somebody has to collect the processes whose parents have ended.
start_node() {
    local node=$1 pid
    shift
    if ! separate_nodes; then
        start_in_node_world "slurmd-$node" "$@"
        return
    fi
    alive "slurmd-$node" && return 0
    # shellcheck disable=SC2016  # expanded by the inner shell
    start "slurmd-$node" "${node_world[@]}" unshare --net --uts --mount --pid --fork --kill-child --mount-proc bash -c '
        hostname "$1" && shift && mkdir -p /tmp/ray && mount -t tmpfs tmpfs /tmp/ray || exit
        until ip link show eth0 up >/dev/null 2>&1; do sleep 0.05; done
        "$@" & wait' bash "$node" "$@"
    pid=$(pid_of "slurmd-$node")
    wait_for "slurmd-$node" 10 has_own_network "$pid"
    plug "$node" "$pid" eth0 "$(node_address "${node#n}")"
}
