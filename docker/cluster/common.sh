# shellcheck shell=bash disable=SC2034  # sourced by cluster.sh; its other parts use what is set here
# What every part of the cluster script uses: messages, the folder, and processes that are surely ours.

dir=${GYM_CLUSTER_DIR:-/tmp/gym-cluster-$(id -u)}
nodes=(n1 n2 n3 n4)
daemons=(munged mariadbd slurmdbd slurmctld "${nodes[@]/#/slurmd-}" sshd)
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin # a user's PATH often lacks the daemons' folder

say() { printf 'cluster: %s\n' "$*"; }

die() {
  printf 'cluster: %s\n' "$*" >&2
  exit 1
}

check_folder_name() {
  dir=$(realpath -m "$dir")
  # Slurm's configuration cannot quote, and a Unix socket's path ends at 107 bytes.
  [[ $dir =~ ^/[A-Za-z0-9._/-]+$ ]] || die "--dir $dir: only letters, digits, '.', '_', '-' and '/' are possible here"
  [ ${#dir} -le 80 ] || die "--dir $dir: longer than 80 characters; sockets inside it would not fit"
}

make_folder() {
  local part
  for part in "" /etc /log /run /run/munge /state /spool /lib /images /ssh; do
    mkdir -p "$dir$part"
  done
  [ -O "$dir" ] || die "$dir belongs to somebody else: choose another --dir"
  chmod 0755 "$dir" "$dir"/{etc,log,run,run/munge,lib,images}
  chmod 0700 "$dir"/{state,ssh}
}

# A caller inside another cluster (or with habits such as SQUEUE_FORMAT) must not change this one.
clean_environment() {
  local name
  for name in $(compgen -e | grep -E '^(SLURM|SBATCH|SRUN|SQUEUE|SACCT|SCANCEL|SINFO|SALLOC)_' || true); do
    unset "$name"
  done
  export SLURM_CONF=$dir/etc/slurm.conf LC_ALL=C
}

pid_of() { cat "$dir/run/$1.pid" 2>/dev/null; }

# A process number is reused after a while: it counts only while the process carries our mark. sshd writes its title over
# its environment, so that its configuration file is looked for as well.
is_ours() {
  [ -n "${1:-}" ] && {
    tr '\0' '\n' <"/proc/$1/environ" | grep -qxF "GYM_CLUSTER_HOME=$dir" ||
      tr '\0' ' ' <"/proc/$1/cmdline" | grep -qF " $dir/etc/sshd_config "
  } 2>/dev/null
}

alive() { is_ours "$(pid_of "$1")"; }

# start NAME COMMAND...: in the background, in its own session, unless it runs already.
start() {
  local name=$1 pid tenths=50
  shift
  alive "$name" && return 0
  GYM_CLUSTER_HOME=$dir setsid "$@" >>"$dir/log/$name.out" 2>&1 </dev/null 9>&- &
  pid=$!
  echo $pid >"$dir/run/$name.pid"
  # The mark shows once the new program is loaded.
  until is_ours $pid || [ $((tenths--)) = 0 ] || ! kill -0 $pid 2>/dev/null; do sleep 0.1; done
}

# stop NAME [SECONDS]: ask, wait, then insist.
stop() {
  local pid tenths=$((${2:-10} * 10))
  pid=$(pid_of "$1") || return 0
  is_ours "$pid" && kill -TERM "$pid" 2>/dev/null
  while is_ours "$pid" && [ $((tenths--)) -gt 0 ]; do sleep 0.1; done
  is_ours "$pid" && kill -KILL "$pid" 2>/dev/null
  rm -f "$dir/run/$1.pid"
}

# wait_for NAME SECONDS COMMAND...: until the command succeeds; the last words of both if it does not.
wait_for() {
  local name=$1 deadline=$((SECONDS + $2))
  shift 2
  until "$@" >"$dir/log/wait.out" 2>&1; do
    if ! alive "$name" || [ $SECONDS -ge $deadline ]; then
      tail -n 15 "$dir/log/$name.out" "$dir/log/wait.out" >&2
      die "$name does not answer as it should ($*); its log is $dir/log/$name.out"
    fi
    sleep 0.2
  done
}
