# What all of this package's scripts share. They run inside slurm/remote.sh, which gives frame, as_login and the nonce;
# the Python builders put the gym_ settings above and the calls below. LC_ALL=C.
# shellcheck shell=bash disable=SC2154,SC2034,SC2317

# Whatever the login's umask: who may write into the run's directories may put another job.sh in the place of ours.
gym_umask=$(umask)
umask "$(printf '%04o' $((gym_umask | 022)))"

# A connection that breaks must not stop what has begun: an sbatch that was sent still has to be written down.
trap '' HUP PIPE

gym_now() { date +%s; }

# gym_read FILE: its text, nothing when there is no such file. Fails when it is there and cannot be read.
gym_read() { gym_absent "$1" || cat "$1"; }

# gym_absent PATH: whether nothing is there. What cannot be looked at (no right to, a stale handle) may be there.
gym_absent() {
  local said
  [ ! -e "$1" ] || return 1
  ! said=$(stat -L -- "$1" 2>&1) || return 1
  case $said in
    *"No such file or directory" | *"Not a directory") ;;
    *) return 1 ;;
  esac
}

# gym_own DIRECTORY: whether we made it. Where everybody may make directories (a /scratch like /tmp), somebody else may
# have made one of that name before us, or a link that can be turned: what lies there would be run as ours. Where a file
# server gives all files to one user, a file that we make tells; by its descriptor, for its name is theirs to give.
gym_own() {
  local owners
  if [ -O "$1" ] && { [ ! -L "$1" ] || [ "$(stat -c %u -- "$1")" = "$EUID" ]; }; then return 0; fi
  gym_stranger="$1 belongs to another user of the cluster, $(stat -c '%U (uid %u)' -- "$1")"
  [ ! -L "$1" ] || return 1
  owners=$(
    set -C
    exec 2>/dev/null
    { stat -L -c %u -- "$1" /dev/fd/5; } 5>"$1/.gym_tmp.$_gym_nonce.own"
  ) || return 1
  rm -f "$1/.gym_tmp.$_gym_nonce.own"
  [ "${owners%%$'\n'*}" = "${owners##*$'\n'}" ]
}

# gym_put FILE MODE: standard input becomes FILE, whole or not at all.
gym_put() {
  local new="${1%/*}/.gym_tmp.$_gym_nonce.${1##*/}" said
  if said=$({ (umask 077 && cat >"$new") && chmod "$2" "$new" && mv -fT "$new" "$1"; } 2>&1); then
    return 0
  fi
  rm -f "$new"
  gym_unwritten "$1" "$said"
}

gym_unwritten() { # FILE SAID
  printf '%s cannot be written: %s\n' "$1" "${2##*: }" >&2
  return 1
}

# gym_file FILE MODE SHA256 BASE64: as gym_put, and only when it is what was sent. printf is a builtin: no argument shows.
gym_file() {
  local new="${1%/*}/.gym_tmp.$_gym_nonce.${1##*/}" said
  mkdir -p "${1%/*}" || return 1
  if said=$({ (umask 077 && printf '%s' "$4" 2>/dev/null | base64 -d >"$new") && gym_is "$3" "$new" &&
    chmod "$2" "$new" && mv -fT "$new" "$1"; } 2>&1); then
    return 0
  fi
  rm -f "$new"
  gym_unwritten "$1" "$said"
}

gym_is() { # SHA256 FILE
  local sum
  sum=$(sha256sum <"$2") || return 1
  [ "${sum%% *}" != "$1" ] || return 0
  printf 'it is not what was sent\n' >&2
  return 1
}

# gym_lock FD: wait for the lock on an open descriptor. 1: somebody holds it for too long. 2: no lock can be had.
# Where the file system knows no flock (Lustre without -o flock), a lock on this machine has to do.
gym_lock() {
  local status
  flock -w "$gym_lock_seconds" "$1" 2>/dev/null
  status=$?
  [ "$status" -gt 1 ] || return "$status"
  status=$(printf '%s' "$gym_lock_name" | cksum)
  status=/tmp/.gym-lock-$UID-${status%% *}
  # Opening what somebody else put there could wait for ever (a pipe), or make a file elsewhere (a link).
  if [ -L "$status" ] || { [ -e "$status" ] && ! { [ -f "$status" ] && [ -O "$status" ]; }; }; then return 2; fi
  eval "exec $1>>\"\$status\"" || return 2
  flock -w "$gym_lock_seconds" "$1" || return $(($? > 1 ? 2 : 1))
}

# gym_ask COMMAND...: a question to Slurm, bounded in time. Only in $( ): that shell gives up our locks, for it outlives
# this one should this one be killed.
gym_ask() {
  exec 3<&- 6>&- 7>&- 8>&- 9>&-
  timeout -k 5 "$gym_query_seconds" env TZ=UTC0 "$@" </dev/null
}

# gym_told COMMAND...: the same, in gym_rows its answer and in gym_said its standard error, by a pipe: a file would need
# space. Fails, with something in gym_said, when nothing follows from the answer: by the rules of slurm/troubles.py.
gym_told() {
  local all said status
  all=$(
    exec 3<&- 6>&- 7>&- 8>&- 9>&-
    { said=$(gym_ask "$@" 2>&1 >&4 4>&-); } 4>&1
    status=$?
    printf '\036%s' "$said"
    exit "$status"
  )
  status=$?
  gym_rows=${all%$'\036'*} gym_said=${all##*$'\036'}
  if [ "$status" = 0 ] && ! [[ ${gym_said,,} =~ $gym_trouble_lines ]]; then return 0; fi
  gym_said=${gym_said:-${gym_rows:-no answer}}
  return 1
}

# gym_squeue CLUSTER NAMES: with --all, for squeue leaves out what lives in a hidden partition unless its id is given.
gym_squeue() {
  gym_told squeue ${1:+"--clusters=$1"} --all --states=all "--user=$(id -u)" "--format=$gym_squeue_format" "--name=$2"
}

gym_sacct() { # CLUSTER OPTION...
  gym_told sacct ${1:+"--clusters=$1"} "--delimiter=$gym_separator" --parsable2 --duplicates \
    "--format=$gym_sacct_format" "${@:2}"
}

gym_utc() { TZ=UTC0 date -d "@$1" +%Y-%m-%dT%H:%M:%S; }

# gym_from EPOCH COMMAND...: COMMAND with a --starttime, which leaves what was said to it in gym_said. Where slurmdbd takes
# no question over a range that long (MaxQueryTimeRange) from a later start: squeue shows what lives all the same, and who
# may not ask about an older end has to do without.
gym_from() {
  local start=$1 later now status
  now=$(gym_now)
  "${@:2}" "--starttime=$(gym_utc "$start")"
  status=$?
  for later in 30 7 1; do
    later=$((now - later * 86400 + 600)) # a bit less, for it takes time until slurmdbd compares
    [[ $later -gt $start && $gym_said == *"Too wide of a date range"* ]] || continue
    start=$later
    "${@:2}" "--starttime=$(gym_utc "$start")"
    status=$?
  done
  return "$status"
}

# gym_has WORD LINES: whether one of the lines begins with that word.
gym_has() {
  case $'\n'$2$'\n' in
    *$'\n'"$1"[$' ;\n']*) ;;
    *) return 1 ;;
  esac
}

# gym_queue: the jobs of gym_name, and of gym_plain in gym_dir (an sbatch by hand), as lines "ID CLUSTER STATE".
# gym_live: those that have not ended; gym_over: those of gym_name that have. Fails with the trouble in gym_trouble.
gym_queue() {
  local cluster id state dir name last more real read_on stands='' revoked=()
  gym_live='' gym_over='' gym_trouble=''
  real=$(cd "$gym_dir" 2>/dev/null && pwd -P)
  for cluster in "${gym_clusters[@]}"; do
    if ! gym_squeue "$cluster" "$gym_name,$gym_plain"; then
      gym_trouble="squeue${cluster:+ on $cluster}: $gym_said"
      return 1
    fi
    # Silence is no answer: without its header this is not squeue that says there is no job.
    if [[ $gym_rows != *JOBID"$gym_separator"* ]]; then
      gym_trouble="squeue${cluster:+ on $cluster}: exit status 0, but its answer lacks the header line: $gym_rows"
      return 1
    fi
    read_on=0
    while IFS=$gym_separator read -r id state _ _ _ _ _ _ dir name last more; do
      if [ "$id,$state,$dir,$name" = JOBID,STATE,WORK_DIR,NAME ]; then
        read_on=1
        continue
      fi
      [ -n "$state$dir$name$last$more" ] || continue # a banner
      # What is left of a row may be a live job's, and so may one whose columns are others: nothing follows from it.
      if ! gym_whole "$id" "$last" "$more" || ! [[ $state =~ ^[[:alnum:]_]*\+?$ ]]; then
        gym_trouble="squeue${cluster:+ on $cluster}: its answer is damaged, this is no whole row: ${id:0:40} ${state:0:40}"
        return 1
      fi
      id=${id%%[+_]*}
      case $name in
        "$gym_name") ! gym_elsewhere "$dir" || continue ;;
        "$gym_plain") [ "$dir" = "$gym_dir" ] || [ "$dir" = "${real:-/}" ] || continue ;;
        *) continue ;;
      esac
      if [ "$state" = REVOKED ]; then
        revoked+=("$id ${cluster:--} $state")
        continue
      fi
      stands+=$id$'\n'
      if ! gym_ended "$state"; then
        gym_live+="$id ${cluster:--} $state"$'\n'
      elif [ "$name" = "$gym_name" ]; then
        gym_over+="$id ${cluster:--} $state"$'\n'
      fi
    done < <(printf '%s\n' "$gym_rows")
    if [ "$read_on" = 0 ]; then # no process was to be had that hands them over
      gym_trouble="squeue${cluster:+ on $cluster}: its answer could not be read: Resource temporarily unavailable"
      return 1
    fi
  done
  # Of a job that a federation gave to several clusters one has it; what the others say tells nothing beside that. Where
  # it is not shown, they alone tell that there is one.
  for state in "${revoked[@]}"; do
    gym_has "${state%% *}" "$stands" || gym_live+=$state$'\n'
  done
}

# gym_elsewhere DIRECTORY: whether a job of our name there is another chain's: it lies in a run directory of another name.
# Eight digits tell names apart, and whoever starts DAG runs may choose an id until they are those of another's job. No
# more than the name is compared: Slurm may know the way there under another.
gym_elsewhere() {
  local run=${gym_dir%/*}
  [[ $1 =~ /(gym-job-[0-9]{8}T[0-9]{6}Z-[0-9a-f]{6})/[^/]+/?$ ]] && [ "${BASH_REMATCH[1]}" != "${run##*/}" ]
}

# gym_whole FIRST LAST MORE: whether a row has come whole: it begins with the id of a job or step, and ends with it.
gym_whole() {
  [ -z "$3" ] && [ "$1" = "${2%$'\r'}" ] && [[ $1 =~ ^[0-9]+([+_.][^[:space:]]+)?$ ]]
}

# A state that is not known to be an end is none.
gym_ended() {
  case $1 in
    COMPLETED | FAILED | TIMEOUT | PREEMPTED | NODE_FAIL | CANCELLED* | OUT_OF_MEMORY | BOOT_FAIL | DEADLINE) ;;
    *) return 1 ;;
  esac
}

# gym_cluster_of ID: where the job was sent, nothing for the default cluster.
gym_cluster_of() {
  local id cluster
  while read -r id cluster _; do
    [ "$id" != "$1" ] || [ "$cluster" = - ] || printf '%s' "$cluster"
  done < <(gym_read "$gym_dir/.gym_jobs" 2>/dev/null)
}

# gym_in_flight: whether an sbatch of this chain is at work, though the shell that began it may be gone.
gym_in_flight() {
  { flock -n 8 2>/dev/null || return $(($? != 1)); } 8>>"$gym_dir/.gym_sbatch.lock"
  return 1
}

# gym_intent_age: seconds since the submission that was cut off may last have been at work, in gym_age; how many jobs the
# chain had before it in gym_count. An intent is no older than its file, for it may come from a login node whose clock is
# behind; cut short, it is as old as that. One with no count was never followed by a job.
gym_intent_age() {
  local at now seen file
  now=$(gym_now)
  read -r at gym_count _ <"$gym_dir/.gym_intent"
  file=$(stat -c %Y "$gym_dir/.gym_intent")
  if ! [[ $at =~ ^[0-9]{1,12}$ ]] || [ "$at" -gt "$now" ] || [ "$at" -lt "$file" ]; then
    at=$file
  fi
  [[ $gym_count =~ ^[0-9]{1,6}$ ]] || gym_count=999999
  ! gym_in_flight || touch "$gym_dir/.gym_sbatch.lock" 2>/dev/null
  seen=$(stat -c %Y "$gym_dir/.gym_sbatch.lock" 2>/dev/null)
  [ "${seen:-0}" -le "$at" ] || at=$seen
  gym_age=$((now > at ? now - at : 0))
}

# gym_mark IDS WHY: say for later looks that we ask for the end of these jobs.
gym_mark() {
  printf '%s %s %s\n' "$(gym_now)" "$1" "$2" >>"$gym_dir/.gym_cancelled"
}

# gym_scancel CLUSTER ID...
gym_scancel() {
  gym_ask scancel ${1:+"--clusters=$1"} "${@:2}" 2>&1
}
