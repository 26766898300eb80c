# shellcheck shell=bash disable=SC2154  # sourced by cluster.sh after common.sh, where the shared names are set
# The distribution's own packages, installed only when a program is missing.

packages=(slurm-wlm slurmdbd munge mariadb-server openssh-server openssh-client libslurm-dev gcc libc6-dev
    python3 curl iproute2 procps util-linux)
programs=(slurmctld slurmd slurmdbd sbatch sacct munged mariadbd mariadb-install-db mariadb sshd ssh-keygen gcc
    python3 curl ss pgrep setsid flock)

missing_programs() {
    local program
    for program in "${programs[@]}"; do
        command -v "$program" >/dev/null || printf '%s ' "$program"
    done
    compgen -G '/usr/include/slurm/spank.h' >/dev/null || printf 'slurm/spank.h '
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi
}

can_be_root() {
    [ "$(id -u)" = 0 ] || { command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }
}

# Packages start their daemons when they are installed. Ours are private ones, so the machine's stay off.
without_starting_services() {
    local policy=/usr/sbin/policy-rc.d made=0 code=0
    if [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' | as_root tee $policy >/dev/null
        as_root chmod 0755 $policy
        made=1
    fi
    "$@" || code=$?
    [ $made = 0 ] || as_root rm -f $policy
    return $code
}

# apt_get LOG WORD...: another one, such as the machine's nightly upgrade, is waited for: five minutes, then it is an error.
apt_get() {
    local log=$1 end=$((SECONDS + 300))
    shift
    until as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 "$@" >>"$log" 2>&1; do
        tail -n 4 "$log" | grep -q 'Could not get lock' && [ $SECONDS -lt $end ] || return 1
        sleep 3
    done
}

# install_from_distribution WHAT MISSING PACKAGE...: the packages, if the function MISSING names programs that are not here.
# Several may want that at once, such as test processes that each bring up a cluster: one installs, the others wait for it.
install_from_distribution() {
    local what=$1 missing_of=$2 missing log
    shift 2
    missing=$("$missing_of")
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || die "missing: $missing- and no apt-get here: install $what yourself"
    can_be_root || die "missing: $missing- run as root or with sudo, or once: apt-get install $*"
    (
        flock 8
        [ -n "$("$missing_of")" ] || exit 0
        log=$(mktemp /tmp/gym-apt.XXXXXX)
        say "installing $what from the distribution (about a minute; log: $log)"
        apt_get "$log" update 8<&- || die "apt-get update failed: see $log"
        without_starting_services apt_get "$log" install -y --no-install-recommends "$@" 8<&- ||
            die "apt-get install failed: see $log"
        missing=$("$missing_of")
        [ -z "$missing" ] || die "still missing after apt-get install: $missing(see $log)"
    ) 8</etc/apt || exit 1
}

install_packages() {
    install_from_distribution "Slurm, slurmdbd, munge, MariaDB and OpenSSH" missing_programs "${packages[@]}"
}
