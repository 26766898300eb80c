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

install_packages() {
    local missing log
    missing=$(missing_programs)
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null ||
        die "missing: $missing- and no apt-get here: install Slurm, slurmdbd, munge, MariaDB and OpenSSH yourself"
    can_be_root || die "missing: $missing- run as root or with sudo, or once: apt-get install ${packages[*]}"
    log=$(mktemp /tmp/gym-cluster-apt.XXXXXX)
    say "installing Slurm, MariaDB and OpenSSH from the distribution (about a minute; log: $log)"
    as_root apt-get update >"$log" 2>&1 || die "apt-get update failed: see $log"
    without_starting_services as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y --no-install-recommends "${packages[@]}" >>"$log" 2>&1 ||
        die "apt-get install failed: see $log"
    missing=$(missing_programs)
    [ -z "$missing" ] || die "still missing after apt-get install: $missing(see $log)"
}
