# The submission record: gym-job.json, put together from what each benchmark last wrote down about itself.
# shellcheck shell=bash disable=SC2154,SC2034,SC2317

# gym_json TEXT: as a JSON string, whatever bytes the text holds; a long one is cut.
gym_json() {
  local text
  text=$(printf '%s' "$1" | tr '\t' ' ' | tr -d '\000-\010\013-\037\177' | tr '\200-\377' '?')
  text=${text:0:2000}
  text=${text//\\/\\\\}
  text=${text//\"/\\\"}
  printf '"%s"' "${text//$'\n'/\\n}"
}

# gym_entry ID ERROR [CLUSTER]: what the record says of this benchmark. Exactly one of the first two is empty. CLUSTER,
# "-" for the default one, is where the job was sent: in a field of its own, for other readers take job_id for a number.
gym_entry() {
  local id=null error=null cluster=${3#-}
  [ -z "$1" ] || id="\"$1\""
  [ -z "$2" ] || error=$(gym_json "$2")
  cluster=${cluster:+"      \"slurm_cluster\": \"$cluster\","$'\n'}
  printf '    {\n%s,\n      "job_id": %s,\n%s      "error": %s\n    }' "$gym_entry_head" "$id" "$cluster" "$error" |
    gym_put "$gym_dir/.gym_record.json" 644
}

# gym_claim: make the run directory ours, or say whose it is. Prints a frame unless all is well.
gym_claim() {
  local message
  if ! message=$(mkdir -p "$gym_run" 2>&1); then
    gym_say_run failed "$message"
    return 1
  fi
  if ! gym_own "$gym_run"; then
    gym_say_run stranger "$gym_stranger"
    return 1
  fi
  chmod go-w -- "$gym_run" 2>/dev/null # an access list of the parent's may have given it to a whole group
  if ! message=$({ : >>"$gym_run/.gym_run.lock"; } 2>&1); then
    gym_say_run failed "$message"
    return 1
  fi
  gym_lock_name=$gym_run
  { gym_claim_locked; } 7>>"$gym_run/.gym_run.lock"
}

gym_claim_locked() {
  local owner message
  if ! gym_lock 7; then
    gym_say_run busy "$gym_run: another submission holds the lock for more than $gym_lock_seconds s"
    return 1
  fi
  rm -f "$gym_run"/.gym_tmp.*
  if ! owner=$(gym_read "$gym_run/.gym_owner" 2>&1); then
    gym_say_run failed "$owner"
    return 1
  fi
  if [ "$owner" != "$gym_owner" ] && { [ -n "$owner" ] || ! gym_unused; }; then
    gym_say_run foreign "$owner"
    return 1
  fi
  if ! message=$({ [ -n "$owner" ] || printf '%s\n' "$gym_owner" | gym_put "$gym_run/.gym_owner" 644; } 2>&1 &&
    gym_stage_run 2>&1); then
    gym_say_run failed "$message"
    return 1
  fi
}

# gym_unused: whether nothing but our own locks and leftovers lies in the run directory.
gym_unused() {
  local entry
  for entry in "$gym_run"/* "$gym_run"/.[!.]*; do
    case $entry in
      "$gym_run"/.gym_*) ;;
      *) gym_absent "$entry" || return 1 ;;
    esac
  done
}

gym_say_run() {
  frame run "$1"
  printf '%s\n' "$2"
}

# gym_assemble: gym-job.json anew from the template and every benchmark's entry, in the order of the config.
gym_assemble() {
  local message
  [ -e "$gym_run/.gym_record_template" ] || return 0
  gym_lock_name=$gym_run
  if ! message=$({ gym_assemble_locked 7>>"$gym_run/.gym_run.lock"; } 2>&1); then
    frame record failed
    printf '%s\n' "${message:-$gym_run: the lock of the record is held for too long}"
  fi
}

gym_assemble_locked() {
  local template entries head
  gym_lock 7 || return 1
  template=$(cat "$gym_run/.gym_record_template") || return 1
  entries=$(gym_entries "$template") || return 1
  head=${template%%"$gym_here"*}
  printf '%s%s%s\n' "${head#*$'\n'}" "$entries" "${template#*"$gym_here"}" | gym_put "$gym_run/gym-job.json" 644
}

# A line of the template that no JSON text can hold. The first line names the config's benchmarks in order.
gym_here=$'\n@benchmarks@\n'

gym_entries() { # TEMPLATE
  local name entry separator=$'\n' order seen=/
  read -ra order < <(printf '%s\n' "${1%%$'\n'*}")
  for name in "${order[@]}" "$gym_run"/*/.gym_record.json; do
    name=${name%/.gym_record.json}
    name=${name##*/}
    if [[ $seen == */"$name"/* ]] || [ ! -e "$gym_run/$name/.gym_record.json" ]; then continue; fi
    seen+="$name/"
    entry=$(cat "$gym_run/$name/.gym_record.json") || return 1
    printf '%s%s' "$separator" "$entry"
    separator=$',\n'
  done
  printf '\n  '
}
