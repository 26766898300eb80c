# shellcheck shell=bash disable=SC2034  # sourced by cluster.sh; its other parts use what is set here
# What every part of the cluster script uses: the folder, and an environment without surprises.

me=cluster
dir=${GYM_CLUSTER_DIR:-/tmp/gym-cluster-$(id -u)}
nodes=(n1 n2 n3 n4)
daemons=(munged mariadbd slurmdbd slurmctld "${nodes[@]/#/slurmd-}" sshd) # with separate nodes: switch in front
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # a user's PATH often lacks the daemons' folder

check_folder_name() {
    dir=$(realpath -m "$dir")
    # Slurm's configuration cannot quote, and a Unix socket's path ends at 107 bytes.
    [[ $dir =~ ^/[A-Za-z0-9._/-]+$ ]] || die "--dir $dir: only letters, digits, '.', '_', '-' and '/' are possible here"
    [ ${#dir} -le 80 ] || die "--dir $dir: longer than 80 characters; sockets inside it would not fit"
}

make_folder() {
    local part
    for part in "" /etc /log /run /run/munge /state /state/{database,slurmctld} /spool /lib /images /ssh /client; do
        mkdir -p "$dir$part"
    done
    [ -O "$dir" ] || die "$dir belongs to somebody else: choose another --dir"
    chmod 0755 "$dir" "$dir"/{etc,log,run,run/munge,lib,images}
    chmod 0700 "$dir"/{state,ssh,client}
}

# A caller inside another cluster (or with habits such as SQUEUE_FORMAT) must not change this one.
clean_environment() {
    local name
    for name in $(compgen -e | grep -E '^(SLURM|SBATCH|SRUN|SQUEUE|SACCT|SCANCEL|SINFO|SALLOC)_' || true); do
        unset "$name"
    done
    export SLURM_CONF=$dir/etc/slurm.conf LC_ALL=C
}
