# New lines of logs, with every secret of the job taken out before they leave the login node. Runs after remote.sh.
# shellcheck shell=bash disable=SC2317

# _gym_tail TAG FILE OFFSET SKIPPING JOB_SH MOST: whole lines of FILE from OFFSET on, at most MOST bytes, the last ones
# if there are more. Frame tail TAG OFFSET SKIPPING LEFT_OUT and the lines; frame tail.refused TAG when it cannot be
# known what to hide. SKIPPING 1: OFFSET is in the middle of a line, which is left out to its end.
_gym_tail() {
  local tag=$1 file=$2 offset=$3 skipping=$4 most=$6 size text whole left=0
  if [ ! -f "$file" ] || [ ! -r "$file" ] || ! size=$(stat -L -c %s -- "$file" 2>/dev/null); then return 0; fi
  if [ "$size" -lt "$offset" ]; then
    offset=0 skipping=0
  fi
  [ "$size" -gt "$offset" ] || return 0
  local hidden=()
  if ! _gym_hidden "$5"; then
    frame tail.refused "$tag"
    return 0
  fi
  if [ $((size - offset)) -gt "$most" ]; then
    left=$((size - most - offset)) offset=$((size - most)) skipping=1
  fi
  # A NUL cannot stand in a variable of bash; the byte after the last keeps $() from eating line ends.
  text=$(dd if="$file" bs=65536 iflag=skip_bytes,count_bytes,fullblock skip="$offset" count=$((size - offset)) \
    2>/dev/null 3<&- | tr '\0' ' ' && printf x)
  text=${text%x}
  if [ "$skipping" = 1 ]; then
    whole=${text#*$'\n'}
    if [ "$whole" = "$text" ]; then # not even here does that line end
      frame tail "$tag" $((offset + ${#text})) 1 $((left + ${#text}))
      return 0
    fi
    left=$((left + ${#text} - ${#whole})) offset=$((offset + ${#text} - ${#whole})) text=$whole
  fi
  whole=${text%"${text##*$'\n'}"}
  if [ -z "$whole" ] && [ "${#text}" -ge "$most" ]; then # one line without an end: a secret could be cut in two
    frame tail "$tag" $((offset + ${#text})) 1 $((left + ${#text}))
    return 0
  fi
  offset=$((offset + ${#whole}))
  local secret
  for secret in "${hidden[@]}"; do
    whole=${whole//"$secret"/***}
  done
  frame tail "$tag" "$offset" 0 "$left"
  printf '%s' "$whole"
}

# _gym_last JOB_SH MOST LINES FILE...: frame last SIZE for each file that is there and not empty: its path and its end.
_gym_last() {
  local script=$1 most=$2 lines=$3 file text secret hidden=()
  shift 3
  _gym_hidden "$script" || hidden=()
  for file; do
    [ -s "$file" ] || continue
    # of a line that began before, the rest could be the rest of a secret
    text=$(tail -c "$most" -- "$file" | tr '\0' ' ' | {
      [ "$(wc -c <"$file")" -le "$most" ] || IFS= read -r _
      tail -n "$lines"
    })
    for secret in "${hidden[@]}"; do
      text=${text//"$secret"/***}
    done
    frame last "$(wc -c <"$file")"
    printf '%s\n%s' "$file" "$text"
  done
}

# _gym_hidden JOB_SH: the texts that its last line lists, into `hidden`. Fails unless that line is there and whole.
_gym_hidden() {
  local line words word secret
  line=$(tail -n 1 -- "$1" 2>/dev/null) || return 1
  [[ $line == '# hidden '* ]] || return 1
  read -ra words < <(printf '%s\n' "${line#\# hidden }")
  [ "${words[0]}" = "$((${#words[@]} - 2))" ] && [ "${words[-1]}" = . ] || return 1
  for word in "${words[@]:1:${words[0]}}"; do
    [[ $word =~ ^(\\x[0-9a-f]{2})+$ ]] || return 1
    printf -v secret '%b' "$word"
    [ -n "$secret" ] || return 1
    hidden+=("$secret")
  done
}
