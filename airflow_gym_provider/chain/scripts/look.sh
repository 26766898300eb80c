# One look at any number of benchmarks of one run directory: what lies there, and what Slurm knows of their jobs.
# shellcheck shell=bash disable=SC2154,SC2034,SC2317

# gym_look_run: whose directory it is. Fails when there is nothing more to see.
gym_look_run() {
  local owner
  if gym_absent "$gym_run"; then
    gym_say_run absent ''
  elif [ -z "$gym_anybodys" ] && [ -r "$gym_run" ] && [ -x "$gym_run" ] && ! gym_own "$gym_run"; then
    gym_say_run stranger "$gym_stranger"
    return 1
  elif ! owner=$(gym_read "$gym_run/.gym_owner" 2>&1); then
    gym_say_run failed "$owner"
    return 1
  elif [ "$owner" = "$gym_owner" ]; then
    gym_say_run ours ''
    gym_since=$(($(stat -c %Y "$gym_run/.gym_owner") - 3600))
  elif [ -z "$owner" ] && gym_unused; then
    gym_say_run absent ''
  else
    gym_say_run foreign "$owner"
    return 1
  fi
}

# gym_look: the files of the benchmark whose gym_ settings are set now; its names and ids are kept for the questions.
gym_look() {
  local id cluster gym_age gym_count
  gym_names+=${gym_names:+,}$gym_name
  gym_plains+=,$gym_plain
  [ -n "$gym_since" ] && [ -d "$gym_dir" ] || return 0
  gym_show chain .gym_job_chain
  gym_show jobs .gym_jobs
  gym_show marks .gym_cancelled
  gym_show walltime .gym_accumulated_walltime
  gym_show retries .gym_infra_retries
  gym_show task .gym_task
  [ ! -r "$gym_dir/.gym_asked" ] || gym_show asked .gym_asked # not for others who look
  while IFS=$' ;\r' read -r id _; do
    [[ $id =~ ^[1-9][0-9]{0,9}$ ]] || continue # a 0 would have the whole question refused
    cluster=$(gym_cluster_of "$id")
    gym_ids[${cluster:--}]+=${gym_ids[${cluster:--}]:+,}$id
  done < <(gym_read "$gym_dir/.gym_job_chain" 2>/dev/null)
  if [ -e "$gym_dir/.gym_intent" ]; then
    gym_intent_age
    frame intent "$gym_index" "$gym_age" "$gym_count"
  fi
}

# gym_probe: a frame when the benchmark's directory takes no more bytes, which may be what its job has died of.
gym_probe() {
  local said new="$gym_dir/.gym_tmp.$_gym_nonce.probe"
  [ -n "$gym_since" ] && [ -d "$gym_dir" ] || return 0
  if ! said=$({ printf '%4096s' '' >"$new"; } 2>&1); then
    frame unwritable "$gym_index"
    printf '%s cannot be written: %s\n' "$gym_dir" "${said##*: }"
  fi
  rm -f "$new"
}

gym_show() { # FRAME FILE
  local text
  if text=$(gym_read "$gym_dir/$2" 2>&1); then
    frame "$1" "$gym_index"
  else
    frame unreadable "$gym_index"
  fi
  printf '%s' "$text"
}

# gym_look_slurm: one squeue by name, one sacct by id and one by name, for every cluster that matters.
gym_look_slurm() {
  local cluster tag=0 format=(--delimiter="$gym_separator" --parsable2 --duplicates --format="$gym_sacct_format") where
  for cluster in "${gym_clusters[@]}" "${!gym_ids[@]}"; do
    cluster=${cluster#-}
    [[ $gym_asked != *" ${cluster:--} "* ]] || continue
    gym_asked+="${cluster:--} "
    where=(${cluster:+"--clusters=$cluster"})
    frame cluster "$tag" "${cluster:--}"
    framed squeue "$tag" "$gym_query_seconds" env TZ=UTC0 squeue "${where[@]}" --all --states=all \
      "--user=$(id -u)" "--format=$gym_squeue_format" "--name=$gym_names$gym_plains"
    if [ -n "$gym_since" ]; then
      gym_from "$gym_since" gym_look_names "$tag" sacct "${where[@]}" "${format[@]}" "--name=$gym_names"
    fi
    if [ -n "${gym_ids[${cluster:--}]}" ]; then
      framed sacct "$tag" "$gym_query_seconds" env TZ=UTC0 sacct "${where[@]}" "${format[@]}" \
        "--jobs=${gym_ids[${cluster:--}]}"
    fi
    tag=$((tag + 1))
  done
}

gym_look_names() { # TAG COMMAND...
  framed sacct-name "$1" "$gym_query_seconds" env TZ=UTC0 "${@:2}"
  gym_said=$_gym_said
}

# gym_tidy: what a submission that was killed has left in the directory of the benchmark whose gym_ settings are set now,
# unless another is at work there.
gym_tidy() {
  local left=("$gym_dir"/.gym_tmp.*)
  [ -n "$gym_since" ] && { [ -e "${left[0]}" ] || [ -e "$gym_dir/.gym_intent" ]; } || return 0
  {
    if flock -n 9; then
      rm -f "$gym_dir"/.gym_tmp.*
      gym_forget_intent
    fi
  } 2>/dev/null 9>>"$gym_dir/.gym_chain.lock"
}

# gym_forget_intent: a job was recorded after it, so it tells nothing any more.
gym_forget_intent() {
  local gym_age gym_count
  [ -e "$gym_dir/.gym_intent" ] && ! gym_in_flight || return 0
  gym_intent_age
  if [ "$(gym_read "$gym_dir/.gym_job_chain" | grep -c .)" -gt "$gym_count" ]; then
    rm -f "$gym_dir/.gym_intent" "$gym_dir/.gym_sbatch.err"
  fi
}

# gym_heal: a submission that was killed may have left the record behind its parts.
gym_heal() {
  local entry left=("$gym_run"/.gym_tmp.*)
  [ -n "$gym_since" ] || return 0
  if [ -e "${left[0]}" ]; then
    { ! flock -n 7 || rm -f "$gym_run"/.gym_tmp.*; } 2>/dev/null 7>>"$gym_run/.gym_run.lock"
  fi
  for entry in "$gym_run"/*/.gym_record.json; do
    if [ -e "$entry" ] && ! [ "$gym_run/gym-job.json" -nt "$entry" ]; then
      gym_assemble
      return
    fi
  done
}
