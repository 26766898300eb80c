# Submission of one benchmark, exactly once. At every line a kill leaves a state from which the next try finds its way:
# before the intent nothing was sent; from the intent to the chain's new line a job may exist that is found by its name.
# shellcheck shell=bash disable=SC2154,SC2034,SC2317

# gym_mounts PATH...: a frame for each that is not there. Fails when one is missing.
gym_mounts() {
  local index=0 missing=0 path
  for path in "$@"; do
    if [ ! -e "$path" ]; then
      frame mount "$index"
      printf '%s\n' "$path"
      missing=1
    fi
    index=$((index + 1))
  done
  return "$missing"
}

gym_tell() { # OUTCOME [WORD...]; the text is in gym_message
  frame outcome "$gym_index" "$@"
  printf '%s\n' "$gym_message"
}

# gym_submit: the benchmark whose gym_ settings are set now. One frame says what came of it.
gym_submit() {
  gym_lock_name=$gym_dir
  if ! gym_message=$(mkdir -p "$gym_dir" 2>&1 && gym_private && mkdir -p "$gym_dir/logs" "$gym_dir/artifacts" 2>&1 &&
    { : >>"$gym_dir/.gym_chain.lock"; } 2>&1); then
    gym_tell failed
    return
  fi
  { gym_submit_locked; } 9>>"$gym_dir/.gym_chain.lock"
}

# gym_private: whether nobody but us may put another job.sh into the benchmark's directory; says why not.
gym_private() {
  if ! gym_own "$gym_dir"; then
    printf '%s\n' "$gym_stranger"
    return 1
  fi
  chmod go-w -- "$gym_dir" 2>/dev/null
  return 0
}

gym_submit_locked() {
  local id cluster
  gym_lock 9
  case $? in
    0) ;;
    1) gym_message="another submission of $gym_dir holds the lock" gym_tell busy && return ;;
    *) gym_message="$gym_dir: flock works neither there nor in /tmp" gym_tell failed && return ;;
  esac
  rm -f "$gym_dir"/.gym_tmp.*
  gym_same || return
  if ! gym_queue; then
    gym_message=$gym_trouble gym_tell unknown
    return
  fi
  if [ -n "$gym_live" ]; then
    gym_adopt
    return
  fi
  gym_write_found || return
  ! gym_had_its_job || return
  gym_settle_intent || return
  if ! gym_message=$(gym_stage 2>&1); then
    gym_tell failed
    return
  fi
  # Before the intent: without them nothing would be sent, and the intent would make the next try wait for a job.
  if ! gym_message=$({ : >"$gym_dir/.gym_sbatch.err" && : >>"$gym_dir/.gym_sbatch.lock" &&
    : >>"$gym_run/.gym_turn.lock"; } 2>&1); then
    gym_tell failed
    return
  fi
  {
    gym_turn
    gym_sbatch_once
  } 6>>"$gym_run/.gym_turn.lock"
}

# gym_turn: one sbatch at a time for a run: slurmctld sheds load by timing out. Whoever has waited too long goes all the
# same, for who has the turn may hang. Each waits for a time of its own, which all benchmarks of one script share: if those
# whom a slow slurmctld keeps waiting gave up together, they would go together.
gym_turn() {
  local waited=$SECONDS
  : "${gym_patience:=$((gym_lock_seconds * 2 + RANDOM % (gym_lock_seconds * 4 + 1)))}"
  flock -w $((gym_lock_seconds + gym_patience)) 6 2>/dev/null
  waited=$((SECONDS - waited - gym_lock_seconds))
  [ "$waited" -le 0 ] || gym_patience=$((gym_patience > waited ? gym_patience - waited : 0))
}
gym_patience=''

# gym_same: whether the chain is still what the decision was based on.
gym_same() {
  if ! gym_chain=$(gym_read "$gym_dir/.gym_job_chain" 2>&1) || ! gym_marks=$(gym_read "$gym_dir/.gym_cancelled" 2>&1); then
    gym_message=$gym_chain$gym_marks gym_tell failed
    return 1
  fi
  gym_chain=${gym_chain//$'\r'/} gym_marks=${gym_marks//$'\r'/}
  [ "$gym_chain" != "$gym_seen_chain" ] || [ "$gym_marks" != "$gym_seen_marks" ] || return 0
  gym_message="the chain has changed since it was looked at: ${gym_chain//$'\n'/ }" gym_tell changed
  return 1
}

# gym_adopt: a job lives: it is the chain's, recorded or not. The newest, should there be several.
gym_adopt() {
  local id cluster state
  read -r id cluster state < <(printf '%s' "$gym_live" | sort -n | tail -n 1)
  gym_message="job $id is $state"
  # A live job is held whatever else goes wrong: the next look finds it by its name again.
  if ! gym_has "$id" "$gym_chain"; then
    if state=$(gym_record "$id" "$cluster" "$(gym_asked_at)" 2>&1); then
      gym_in_flight || rm -f "$gym_dir/.gym_intent" "$gym_dir/.gym_sbatch.err"
    else
      gym_message+=", but could not be recorded: $state"
    fi
  fi
  gym_tell adopted "$id" "$cluster"
}

# gym_write_found: jobs of ours that ended unrecorded go into the chain. Those the decision did not know of change it.
gym_write_found() {
  local id cluster new=0
  while read -r id cluster _; do
    if [ -z "$id" ] || gym_has "$id" "$gym_chain"; then continue; fi
    gym_has "$id" "$gym_found" || new=1
    if ! gym_message=$(gym_record "$id" "$cluster" "$(gym_asked_at)" 2>&1); then
      gym_tell failed
      return 1
    fi
    gym_chain=$(gym_read "$gym_dir/.gym_job_chain")
  done < <(printf '%s\n%s' "$gym_found" "$gym_over" | sort -un)
  [ "$new" = 1 ] || return 0
  gym_message="a job was found that had not been recorded" gym_tell changed
  return 1
}

# gym_had_its_job: whether the caller wants a benchmark queued once, and the chain has a job, whatever became of it.
gym_had_its_job() {
  local id cluster
  [ -n "$gym_once" ] || return 1
  id=$(printf '%s\n' "$gym_chain" | grep -Eo '^[1-9][0-9]*' | tail -n 1)
  [ -n "$id" ] || return 1
  cluster=$(gym_cluster_of "$id")
  gym_in_flight || rm -f "$gym_dir/.gym_intent" "$gym_dir/.gym_sbatch.err"
  gym_message="job $id was queued before" gym_tell adopted "$id" "${cluster:--}"
}

# gym_settle_intent: a submission was cut off before. Go on only when it certainly made no job.
gym_settle_intent() {
  local gym_age gym_count
  [ -e "$gym_dir/.gym_intent" ] || return 0
  gym_intent_age
  if [ "$(printf '%s' "$gym_chain" | grep -c .)" -gt "$gym_count" ]; then
    rm -f "$gym_dir/.gym_intent"
    return 0
  fi
  gym_in_accounting $(($(gym_now) - gym_age - 86400)) || return 1
  if [ "$gym_age" -lt "$gym_quiet_seconds" ]; then
    gym_wait $((gym_quiet_seconds - gym_age))
    return 1
  fi
  rm -f "$gym_dir/.gym_intent"
}

gym_wait() { # SECONDS
  gym_message="a submission was cut off; whether it made a job shows within $1 s" gym_tell wait "$1"
}

# gym_in_accounting SINCE: look for an unrecorded job of our name that ended already. Fails, and says why, unless none is.
gym_in_accounting() {
  local cluster id state dir name last more
  for cluster in "${gym_clusters[@]}"; do
    if ! gym_from "$1" gym_sacct "$cluster" "--name=$gym_name" ||
      [[ $gym_rows != JobID* && $gym_rows != *$'\n'JobID* ]]; then
      [[ $gym_said != *"storage is disabled"* ]] || continue
      gym_message="a submission was cut off, and sacct cannot say what came of it: ${gym_said:-$gym_rows}"
      gym_tell wait "$gym_quiet_seconds"
      return 1
    fi
    while IFS=$gym_separator read -r id state _ _ _ _ _ _ _ _ _ dir name last more; do
      [ -n "$state$name$last" ] && [ "$id" != JobID ] || continue
      if ! gym_whole "$id" "$last" "$more"; then
        gym_message="a submission was cut off, and the answer of sacct is damaged: ${id:0:40} ${state:0:40}"
        gym_tell wait "$gym_quiet_seconds"
        return 1
      fi
      id=${id%%+*}
      if [[ $id =~ ^[0-9]+$ ]] && ! gym_elsewhere "$dir"; then gym_over+="$id ${cluster:--}"$'\n'; fi
    done < <(printf '%s\n' "$gym_rows")
  done
  gym_write_found
}

# gym_intent EPOCH: from here until it is gone, a job may exist that the chain does not name.
gym_intent() {
  printf '%s %s %s\n' "$1" "$(printf '%s' "$gym_chain" | grep -c .)" "$_gym_nonce" | gym_put "$gym_dir/.gym_intent" 644
}

gym_sbatch_once() {
  local out err status
  if ! gym_message=$(gym_intent "$(gym_now)" 2>&1); then
    gym_tell failed
    return
  fi
  err=$gym_dir/.gym_sbatch.err
  # Descriptor 8 stays with sbatch alone: should this shell be killed, its lock tells that sbatch is still at work.
  {
    flock -n 8
    out=$(gym_sbatch 2>"$err")
    status=$?
  } 8>>"$gym_dir/.gym_sbatch.lock"
  err=$(gym_read "$err" 2>/dev/null)
  frame sbatch "$gym_index" "$status"
  printf '%s' "$out"
  frame sbatch.err "$gym_index"
  printf '%s' "$err"
  gym_job_id "$out"
  if [ "$status" = 0 ] && [ "$gym_ids" = 1 ]; then
    gym_submitted "$gym_id" "$gym_cluster"
  elif gym_refused "$status" "$err"; then
    gym_refuse "$status" "$err"
  else
    gym_unsure "$status" "$err"
  fi
}

# The one call. Its environment is the login's, plus what gym_forward exports, under names that may be those of our
# variables: none is read after that. Nothing of ours but descriptor 8. The touch tells when it ended, should nobody be
# left to read its answer.
gym_sbatch() {
  exec 3<&- 6>&- 7>&- 9>&-
  cd "$gym_dir" || exit 126
  if ! gym_own .; then # exchanged since: job.sh is that of the directory in which we are
    printf 'Unable to open job.sh: %s\n' "$gym_stranger" >&2
    exit 126
  fi
  umask "$gym_umask" # which the job inherits
  set -- "$(type -P timeout)" -k 5 "$gym_sbatch_seconds" "$(type -P sbatch)" --parsable "--job-name=$gym_name" \
    "--chdir=$gym_dir" ${gym_time:+"--time=$gym_time"} job.sh
  gym_forward
  as_login "$@" </dev/null
  set -- "$?" "${1%timeout}touch"
  "$2" .gym_sbatch.lock 2>/dev/null
  return "$1"
}

# gym_job_id TEXT: the last line that is an answer of sbatch; how many there were in gym_ids. No job has the number 0, nor
# one that Slurm keeps for "none" and "all" (2^32 - 2 and more).
gym_job_id() {
  local line
  gym_id='' gym_cluster='-' gym_ids=0
  while IFS= read -r line; do
    line=${line%$'\r'}
    if [[ $line =~ ^([1-9][0-9]{0,9})(\;([A-Za-z0-9_.-]+))?$ ||
      $line =~ ^Submitted\ batch\ job\ ([1-9][0-9]{0,9})(\ on\ cluster\ ([A-Za-z0-9_.-]+))?$ ]] &&
      [ "${BASH_REMATCH[1]}" -lt 4294967294 ]; then
      gym_id=${BASH_REMATCH[1]} gym_cluster=${BASH_REMATCH[3]:--} gym_ids=$((gym_ids + 1))
    fi
  done < <(printf '%s\n' "$1")
}

# gym_refused STATUS STDERR: whether it is certain that no job was made. A wrapper may fail after it has told a job's id.
gym_refused() {
  [ "$gym_ids" = 0 ] || return 1
  [ "$1" != 0 ] && [ "$1" != 124 ] && [ "$1" != 137 ] || return 1
  [ "$1" != 126 ] && [ "$1" != 127 ] || return 0
  ! [[ $2 =~ $gym_answer_lost ]] || return 1
  [[ $2 =~ "Batch job submission failed:"|[Ii]nvalid|[Uu]nrecognized|"option requires"|"Unable to open"|"does not look like" ]]
}

gym_answer_lost='[Tt]imed out|Unable to contact|[Cc]onnect failure|[Cc]onnection (refused|reset)|[Cc]ommunication'
gym_answer_lost+='|Zero Bytes|[Rr]eceive failure|[Ss]end failure|Broken pipe|Unexpected message|Transport endpoint'
gym_answer_lost+='|message length|longer than data|[Aa]uthentication error|Interrupted system call|Invalid response'

# gym_unsure STATUS STDERR: sbatch failed, yet the job may be there ("Socket timed out"): look for it by name.
gym_unsure() {
  local id cluster
  if gym_queue; then
    while read -r id cluster _; do
      if [ -z "$id" ] || gym_has "$id" "$gym_chain"; then continue; fi
      gym_submitted "$id" "$cluster"
      return
    done < <(printf '%s%s' "$gym_live" "$gym_over" | sort -rn)
    if [ "$1" = 0 ] && [ -n "$gym_id" ]; then
      gym_submitted "$gym_id" "$gym_cluster"
      return
    fi
  fi
  gym_intent "$(gym_now)" 2>/dev/null
  if gym_third_time "$1" "$2"; then
    gym_tell_refusal "$1" "$2"
    return
  fi
  gym_entry '' "not certain whether a job was made: ${2:-sbatch ended with status $1}" 2>/dev/null
  gym_message="sbatch ended with status $1; it may have made a job nevertheless: $2" gym_tell wait "$gym_quiet_seconds"
}

# gym_third_time STATUS STDERR: sbatch failed three times in words that nobody knows, and no job was ever seen: it is a
# refusal (of a site's own wrapper). An answer that was lost is none, however often: slurmctld may be slow for hours. The
# intent stays: the next try waits as long as after the first time, for this time may have made the job.
gym_third_time() {
  local times
  [ "$1" != 0 ] && [ "$1" != 124 ] && [ "$1" != 137 ] && ! [[ $2 =~ $gym_answer_lost ]] || return 1
  times=$(($(gym_read "$gym_dir/.gym_unsure" 2>/dev/null | grep -Eom 1 '^[1-9][0-9]{0,2}$' || echo 0) + 1))
  printf '%s\n' "$times" | gym_put "$gym_dir/.gym_unsure" 644 2>/dev/null
  [ "$times" -ge 3 ]
}

gym_refuse() { # STATUS STDERR
  rm -f "$gym_dir/.gym_intent"
  gym_tell_refusal "$1" "$2"
}

gym_tell_refusal() { # STATUS STDERR
  rm -f "$gym_dir/.gym_unsure"
  gym_entry '' "${2:-sbatch ended with status $1}" 2>/dev/null
  gym_message=$2 gym_tell refused "$1"
}

gym_submitted() { # ID CLUSTER
  local cluster=${2#-} marks why
  if gym_message=$(gym_record "$1" "$2" "$(gym_now)" 2>&1); then
    rm -f "$gym_dir/.gym_intent" "$gym_dir/.gym_sbatch.err" "$gym_dir/.gym_unsure"
  else
    gym_message="job $1 is queued, but could not be recorded: $gym_message"
  fi
  marks=$(gym_read "$gym_dir/.gym_cancelled" 2>/dev/null)
  marks=${marks//$'\r'/}
  if [ "$marks" != "$gym_marks" ]; then
    why=${marks##*$'\n'}
    why=${why#* }
    gym_mark "$1" "${why#* }" 2>/dev/null
    gym_message="job $1 was cancelled, for a cancel came in between: $(gym_scancel "$cluster" "$1")"
    gym_tell cancelled "$1" "$2"
  else
    gym_tell submitted "$1" "$2"
  fi
}

# gym_asked_at: when a job was asked for that is found only now; "-" where nothing tells, as of one submitted by hand. Not
# the present time: what Slurm has of a job from long before it was submitted is taken for another job's of that number.
gym_asked_at() {
  local at=''
  [ ! -e "$gym_dir/.gym_intent" ] || read -r at _ <"$gym_dir/.gym_intent"
  if ! [[ $at =~ ^[0-9]{1,12}$ ]] || [ "$at" -gt "$(gym_now)" ]; then at=-; fi
  printf '%s' "$at"
}

# gym_record ID CLUSTER EPOCH: the chain's new line comes last: with it, all the rest is there.
gym_record() {
  local jobs counters=$gym_counters
  # The counters are those of the jobs before this one, and the decision has counted those that it knew of.
  if gym_has "$1" "$gym_found"; then counters=${counters:+$gym_counters_before}; fi
  jobs=$(gym_read "$gym_dir/.gym_jobs") || return 1
  gym_entry "$1" '' "$2" || return 1
  printf '%s\n' ${jobs:+"$jobs"} "$1 $2 $3" | gym_put "$gym_dir/.gym_jobs" 644 || return 1
  if [ -n "$counters" ]; then
    gym_count "$counters" || return 1
  fi
  printf '%s\n' ${gym_chain:+"$gym_chain"} "$1" | gym_put "$gym_dir/.gym_job_chain" 644
}

# gym_count "SECONDS RETRIES": upstream's counters, as of the jobs before the present one.
gym_count() {
  printf '%s\n' "${1% *}" | gym_put "$gym_dir/.gym_accumulated_walltime" 644 &&
    printf '%s\n' "${1#* }" | gym_put "$gym_dir/.gym_infra_retries" 644
}
