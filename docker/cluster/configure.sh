# shellcheck shell=bash disable=SC2154  # sourced by cluster.sh after common.sh, where the shared names are set
# Turns the *.conf.in files into the cluster's configuration. Ports, keys and passwords are made once and kept.

cluster_parts=$here/cluster
standins=$here/standins

load_ports() {
    if own_hosts; then
        database_port=3306 dbd_port=6819 ctld_port=6817 ssh_port=2222 node_port=7001
        return
    fi
    [ -s "$dir/ports" ] || die "no cluster in $dir: run '$here/cluster.sh up --dir $dir' first"
    port_base=$(cat "$dir/ports")
    database_port=$port_base dbd_port=$((port_base + 1)) ctld_port=$((port_base + 2)) ssh_port=$((port_base + 3))
    node_port=$((port_base + 4))
}

make_secrets() {
    local key
    [ -s "$dir/state/munge.key" ] ||
        (umask 077 && dd if=/dev/urandom of="$dir/state/munge.key" bs=1024 count=1 status=none)
    [ -s "$dir/state/password" ] || (umask 077 && head -c 18 /dev/urandom | base64 | tr -d '+/=' >"$dir/state/password")
    for key in ssh/host_key client/user_key; do
        [ -s "$dir/$key" ] || ssh-keygen -q -t ed25519 -N '' -C "gym-cluster ${key#*/}" -f "$dir/$key"
    done
    cp "$dir/client/user_key.pub" "$dir/ssh/authorized_keys"
    printf '[%s]:%s %s\n' "$(address_of sshd)" "$ssh_port" "$(cut -d' ' -f1,2 "$dir/ssh/host_key.pub")" \
        >"$dir/client/known_hosts"
    printf '{"gym_cluster": %s}\n' "$(airflow_connection)" >"$dir/client/connections.json"
}

# fill FILE: the template with its @NAMES@ replaced.
fill() {
    local node number=0 words=()
    for node in "${nodes[@]}"; do
        words+=(-e "s|@${node^^}_PORT@|$((node_port + number++))|g" -e "s|@${node^^}_HOST@|$(host_of "slurmd-$node")|g"
            -e "s|@${node^^}@|$(address_of "slurmd-$node")|g")
    done
    sed -e "s|@DIR@|$dir|g" -e "s|@USER@|$(id -un)|g" -e "s|@STANDINS@|$standins|g" \
        -e "s|@DATABASE_PORT@|$database_port|g" -e "s|@DBD_PORT@|$dbd_port|g" -e "s|@CTLD_PORT@|$ctld_port|g" \
        -e "s|@SSH_PORT@|$ssh_port|g" -e "s|@PASSWORD@|$(cat "$dir/state/password")|g" \
        -e "s|@CTLD_HOST@|$(host_of slurmctld)|g" -e "s|@CTLD@|$(address_of slurmctld)|g" \
        -e "s|@DBD_HOST@|$(host_of slurmdbd)|g" -e "s|@DBD@|$(address_of slurmdbd)|g" \
        -e "s|@DATABASE@|$(address_of mariadbd)|g" -e "s|@LISTEN@|$(listen_address)|g" "${words[@]}" \
        "$cluster_parts/$1.in"
}

configure() {
    local file gpu
    own_hosts || [ -s "$dir/ports" ] || choose_ports 8 >"$dir/ports"
    load_ports
    make_secrets
    for file in slurm.conf slurmdbd.conf gres.conf plugstack.conf cgroup.conf sshd_config; do
        (umask 077 && fill "$file" >"$dir/etc/$file.new")
    done
    without_cgroups >>"$dir/etc/cgroup.conf.new"
    chmod 0644 "$dir"/etc/{slurm,gres,plugstack,cgroup}.conf.new
    ! separate_nodes || echo "Epilog=$cluster_parts/epilog.sh" >>"$dir/etc/slurm.conf.new"
    # In one step each: somebody may be using the cluster at this moment.
    for file in "$dir"/etc/*.new; do mv "$file" "${file%.new}"; done
    # Ordinary files: slurmd says that they are no devices, and counts them all the same.
    for gpu in 0 1 2 3 4 5 6 7; do : >"$dir/lib/gpu$gpu"; done
    prepare_names
}

# Slurm from 22.05 on looks for cgroups even if nothing uses them, and a container has none to give.
without_cgroups() {
    if slurm_is_at_least 24 5; then
        echo 'CgroupPlugin=disabled'
    elif slurm_is_at_least 23 2; then
        printf '%s\n' 'CgroupPlugin=cgroup/v1' 'IgnoreSystemd=yes'
    elif slurm_is_at_least 22 5; then
        echo 'CgroupPlugin=cgroup/v1'
    fi
}

slurm_is_at_least() {
    local major minor
    IFS=' .' read -r _ major minor _ < <(slurmd -V)
    [ "$((10#$major))" -gt "$1" ] || { [ "$((10#$major))" -eq "$1" ] && [ "$((10#$minor))" -ge "$2" ]; }
}

build_pyxis_standin() {
    local source=$cluster_parts/pyxis_standin.c plugin=$dir/lib/pyxis_standin.so
    [ "$plugin" -nt "$source" ] && return 0
    gcc -std=gnu11 -Wall -Wextra -Werror -O1 -fPIC -shared -o "$plugin.new" "$source" ||
        die "the Pyxis stand-in does not compile: $source"
    mv "$plugin.new" "$plugin"
}

# What a client needs: Slurm's commands in this shell, plain ssh, and Airflow's connection "gym_cluster".
print_environment() {
    local key=$dir/client/user_key
    cat <<END
export GYM_CLUSTER_DIR=$dir
export SLURM_CONF=$dir/etc/slurm.conf
export GYM_SSH_HOST=$(address_of sshd)
export GYM_SSH_PORT=$ssh_port
export GYM_SSH_USER=$(id -un)
export GYM_SSH_KEY=$key
export GYM_SSH_KNOWN_HOSTS=$dir/client/known_hosts
export AIRFLOW_CONN_GYM_CLUSTER='$(airflow_connection)'
END
}

airflow_connection() {
    local extra
    extra=$(printf '"key_file": "%s", "host_key": "%s", "look_for_keys": "false", "poll_interval": 5' \
        "$dir/client/user_key" "$(cut -d' ' -f1,2 "$dir/ssh/host_key.pub")")
    printf '{"conn_type": "ssh", "host": "%s", "port": %s, "login": "%s", "extra": {%s}}' \
        "$(address_of sshd)" "$ssh_port" "$(id -un)" "$extra"
}
