# Jobs that were alive at the last look, asked for at little cost. Runs after remote.sh; alive.py writes the functions
# _gym_ask_N and _gym_account_N, one of each for a cluster.
# shellcheck shell=bash disable=SC2154,SC2317

# Passes on what squeue printed of the wanted jobs, and says on stderr, in lines of ids, which of them it did not show:
# with "?" before them when squeue gave no answer to rely on.
# shellcheck disable=SC2016
_gym_pick='
BEGIN { FS = "\037"; keep = 1 }
NR == 1 { end = "@@" $0 " queue.end "; next }
!began && /^[0-9]+$/ { id[++wanted] = $0; missing[$0] = 1; next }
{ began = 1 }
index($0, "@@") == 1 { keep = 1; if (index($0, end) == 1) { over = 1; failed = ($0 !~ / 0$/) } }
over && /[Ii]nvalid user/ { stranger = 1 }
!over && NF > 1 && $1 ~ /^[0-9]+([+_][^ ]*)?$/ {
  base = $1; sub(/[+_].*/, "", base)
  keep = (base in known) || (base in missing)
  if (base in missing) { delete missing[base]; known[base] = 1 }
}
keep { print }
END {
  doubt = (!over || failed) && !stranger ? "?" : ""
  for (i = 1; i <= wanted; i++) if (doubt || stranger || (id[i] in missing)) {
    line = line (n++ ? "," : doubt) id[i]
    if (n == 500) { print line > "/dev/stderr"; line = ""; n = 0 }
  }
  if (n) print line > "/dev/stderr"
}'

# _gym_still N SECONDS COMMAND...: COMMAND is a squeue for whatever the user has; those of the wanted jobs that it does
# not show are asked for by their ids, in this same round trip. Frame same N when it prints what it printed to this
# shell before, and all were there.
_gym_still() {
  local number=$1 limit=$2 told text status rest='' line chunk=0
  local -x TZ=UTC0
  shift 2
  told=$(
    { line=$(timeout -k 5 "$limit" "$@" 2>&1 >&4 4>&-); } 4>&1
    printf '\036%s\036%s' "$?" "$line"
  )
  text=${told%$'\036'*$'\036'*}
  line=${told:${#text}+1} # not by a pattern: bash tries those at every one of a hundred thousand characters
  status=${line%%$'\036'*} line=${line#*$'\036'}
  if [ -n "${_gym_last[number]}" ] && [ "$status" = 0 ] && [ "$text" = "${_gym_last[number]}" ]; then
    frame same "$number"
    return 0
  fi
  {
    rest=$({
      printf '%s\n' "$_gym_nonce"
      "_gym_wanted_$number"
      frame queue "$number"
      printf '%s' "$text"
      frame queue.end "$number" "$status"
      printf '%s\n' "$line"
    } | awk "$_gym_pick" 2>&1 >&5 5>&-)
  } 5>&1
  _gym_last[number]=
  [ "$status" != 0 ] || [ -n "$rest" ] || _gym_last[number]=$text
  while IFS= read -r line; do
    case $line in
      \?*) "_gym_account_$number" "${line#\?}" "$number.$chunk" ;;
      [0-9]*) "_gym_ask_$number" "$line" "$number.$chunk" ;;
    esac
    chunk=$((chunk + 1))
  done < <(printf '%s\n' "$rest")
}
