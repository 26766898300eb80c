# The end of a chain's jobs, on somebody's request: known ids first and at once, then whatever else lives under its name.
# shellcheck shell=bash disable=SC2154,SC2034,SC2317

# gym_cancel_known: the ids the caller gave, else the last one of a chain of ours. Marked before: a look must know that it was us.
gym_cancel_known() {
  if [ "${#gym_given[@]}" = 0 ] && gym_own "$gym_dir"; then
    mapfile -t gym_given < <(gym_read "$gym_dir/.gym_job_chain" 2>/dev/null | grep -Eo '^[0-9]+' | grep -Ex '[1-9][0-9]{0,9}' |
      tail -n 1)
  fi
  gym_cancel "${gym_given[@]}"
}

# gym_cancel WORD...: mark, then one scancel for each cluster; a word is "ID" or "ID;CLUSTER". What is done is in gym_done.
gym_cancel() {
  local word id cluster said status ids=''
  local -A at=()
  for word in "$@"; do
    id=${word%%;*} cluster=${word#"$id"}
    cluster=${cluster#;}
    cluster=${cluster:-$(gym_cluster_of "$id")}
    at[${cluster:--}]+=" $id"
    ids+=${ids:+,}$id
  done
  [ ! -d "$gym_dir" ] || gym_mark "${ids:--}" "$gym_why" 2>/dev/null
  for cluster in "${!at[@]}"; do
    read -ra ids < <(printf '%s\n' "${at[$cluster]}")
    said=$(gym_scancel "${cluster#-}" "${ids[@]}")
    status=$?
    frame scancel "$gym_index" "$status" "${ids[@]}"
    printf '%s\n' "$said"
    gym_done[gym_index]+="${at[$cluster]} "
  done
}

# gym_cancel_rest: look by name; what lives and was not cancelled yet is. Fails while something is left.
gym_cancel_rest() {
  local id cluster state rest=() left=()
  if ! gym_queue; then
    frame trouble "$gym_index"
    printf '%s\n' "$gym_trouble"
    gym_cancel_blindly
    return 1
  fi
  while read -r id cluster state; do
    [ -n "$id" ] || continue
    [ "$state" = COMPLETING ] || left+=("$id")
    [[ " ${gym_done[gym_index]} " == *" $id "* ]] || rest+=("$id;${cluster#-}")
  done < <(printf '%s' "$gym_live")
  frame left "$gym_index" "${left[@]}"
  if [ "${#rest[@]}" != 0 ]; then
    gym_cancel "${rest[@]}"
    return 1
  fi
  [ "${#left[@]}" = 0 ]
}

# gym_cancel_blindly: no id is known and squeue is silent: by name, once.
gym_cancel_blindly() {
  local said status
  [ -z "${gym_done[gym_index]}" ] || return 0
  gym_done[gym_index]=' '
  said=$(gym_ask scancel "--user=$(id -un)" "--name=$gym_name" 2>&1)
  status=$?
  frame scancel "$gym_index" "$status"
  printf '%s\n' "$said"
}
