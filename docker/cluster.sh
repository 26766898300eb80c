#!/usr/bin/env bash
# A real Slurm with accounting, and an sshd in front of it, on this one machine.
#
#   docker/cluster.sh up     [--dir DIR]   bring it up; what already runs is left alone, what broke is repaired
#   docker/cluster.sh down   [--dir DIR]   end its jobs and its processes, and no others; the folder stays
#   docker/cluster.sh crash DAEMON... [--dir DIR]   SIGKILL these and their children; `up` brings them back
#   docker/cluster.sh status [--dir DIR]   what runs; exit 0 only if all of it does
#   docker/cluster.sh env    [--dir DIR]   shell lines that point a client at it: eval "$(docker/cluster.sh env)"
#   docker/cluster.sh prepare [--dir DIR]  configuration and keys only; nothing is started
#   docker/cluster.sh run PART [--dir DIR] one daemon in the foreground; `answers PART` asks whether it is well
#   docker/cluster.sh install              the distribution's packages that all of this needs
#
# up --separate-nodes makes the four nodes machines of their own (network, processes), not just names for this one; it
# takes root. See cluster/machines.sh. prepare --own-hosts is for containers: each part is run on a host of its own, which
# has the part's name (mariadbd, slurmdbd, slurmctld, n1 ..., login), and all of them see DIR. See compose.yaml.
#
# DIR (or GYM_CLUSTER_DIR; default /tmp/gym-cluster-<uid>) holds everything: configuration, keys, database, logs, ports.
# Everything runs as the user who calls this. Slurm's own /etc files are neither read nor written. The GPUs do not
# exist, and containers are accepted but not started: see cluster/pyxis_standin.c.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=SCRIPTDIR/processes.sh
source "$here/processes.sh"
# shellcheck source=SCRIPTDIR/cluster/common.sh
source "$here/cluster/common.sh"
# shellcheck source=SCRIPTDIR/cluster/packages.sh
source "$here/cluster/packages.sh"
# shellcheck source=SCRIPTDIR/cluster/machines.sh
source "$here/cluster/machines.sh"
# shellcheck source=SCRIPTDIR/cluster/names.sh
source "$here/cluster/names.sh"
# shellcheck source=SCRIPTDIR/cluster/configure.sh
source "$here/cluster/configure.sh"
# shellcheck source=SCRIPTDIR/cluster/parts.sh
source "$here/cluster/parts.sh"
# shellcheck source=SCRIPTDIR/cluster/daemons.sh
source "$here/cluster/daemons.sh"

usage() {
    sed -n '2,21s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

prepare() {
    install_packages
    make_folder
    exec 9>"$dir/lock"
    flock 9
    [ "$wants_own_hosts" = 0 ] || choose_own_hosts
    [ "$wants_separate_nodes" = 0 ] || choose_separate_nodes
    configure
    build_pyxis_standin
}

up() {
    local began=$SECONDS
    ! own_hosts || die "the parts of $dir have hosts of their own; run each on its host: $0 run PART --dir $dir"
    prepare
    start_daemons
    say "Slurm is up after $((SECONDS - began)) s: $(sinfo_line)"
}

down() {
    [ -d "$dir" ] || { say "nothing to end: $dir does not exist"; return 0; }
    exec 9>"$dir/lock"
    flock 9
    stop_daemons
    say "Slurm in $dir is down"
}

status() {
    local name failed=0
    for name in "${daemons[@]}"; do
        if alive "$name"; then
            say "$name: running, process $(pid_of "$name")"
        else
            say "$name: not running"
            failed=1
        fi
    done
    [ "$failed" = 0 ] && sinfo
}

main() {
    local command=${1:-} wants_separate_nodes=0 wants_own_hosts=0 parts=()
    [ $# -gt 0 ] && shift
    while [ $# -gt 0 ]; do
        case $1 in
            --dir) dir=${2:?--dir wants a folder}; shift 2 ;;
            --dir=*) dir=${1#--dir=}; shift ;;
            --separate-nodes) wants_separate_nodes=1; shift ;;
            --own-hosts) wants_own_hosts=1; shift ;;
            [!-]*)
                [[ $command =~ ^(crash|run|answers)$ ]] || die "unknown argument: $1 (see $0 --help)"
                parts+=("$1")
                shift
                ;;
            *) die "unknown argument: $1 (see $0 --help)" ;;
        esac
    done
    check_folder_name
    ! separate_nodes || daemons=(switch "${daemons[@]}")
    clean_environment
    case $command in
        up | down | status | prepare) "$command" ;;
        install) install_packages ;;
        run | answers) check_part "${parts[@]}"; load_ports; "$command" "${parts[0]}" ;;
        crash) crash "${parts[@]:?crash wants names of: ${daemons[*]}}" ;;
        env) load_ports; print_environment ;;
        -h | --help | help) usage ;;
        *) usage >&2; exit 2 ;;
    esac
}

main "$@"
