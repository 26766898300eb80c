# What a finished benchmark's rollouts come to, in lines that summary.py reads. Bash, coreutils, awk; Python where it is.
# No line of the rollouts is sent, none is held for longer than it takes to read; sort goes to disk beyond 32 MB.
# SC2317: called by the lines that summary.py adds. SC2154: summary.py sets the programs.
# shellcheck shell=bash disable=SC2317,SC2154

# Rows of one file on stdout, by the reader that is asked for (python or awk).
_gym_rows() {
  [ -f "$3" ] || return 0
  if [ "$1" = python ]; then
    python3 -I -S -c "$_gym_reader_py" "$2" <"$3" 2>/dev/null
  else
    awk -v "source=$2" "$_gym_reader_awk" <"$3"
  fi
}

# The whole summary of ROLLOUTS and FAILURES on stdout.
_gym_summarise() {
  (
    set -o pipefail
    renice -n 10 -p "$BASHPID" >/dev/null 2>&1
    { _gym_rows "$1" rollouts "$2" && _gym_rows "$1" failures "$3"; } |
      sort -S 32M -t $'\t' -k3,3 -k4,4 -k5,5 -k2,2 -k6,6n | awk "$_gym_totals_awk" |
      sort -S 32M -t $'\t' -k1,1 -k2,2g | awk "$_gym_distribution_awk"
  )
}

# Which state of the files a summary is of: bytes and seconds since 1970 of both.
_gym_state() {
  printf 'v\t1'
  stat -L -c $'\t%s\t%Y' -- "$1" 2>/dev/null | tr -d '\n'
  stat -L -c $'\t%s\t%Y' -- "$2" 2>/dev/null | tr -d '\n'
  printf '\n'
}

# The summary in the file TABLE, made anew unless it is that of the files as they are. Prints the path of what was made:
# TABLE, or a file elsewhere when TABLE cannot be written, which the caller removes.
_gym_table() {
  local rollouts=$1 failures=$2 table=$3 state made reader
  state=$(_gym_state "$rollouts" "$failures")
  if [ -f "$table" ] && [ "$(head -n 1 -- "$table")" = "$state" ] && [ "$(tail -n 1 -- "$table")" = end ]; then
    printf '%s' "$table"
    return 0
  fi
  # What takes minutes is done one at a time on this node, whoever asks: many benchmarks may end together. What takes
  # seconds does not wait behind it. A folder can be locked without being written; where it cannot, nobody waits.
  if [ "$(stat -L -c %s -- "$rollouts")" -gt "$_gym_large" ]; then
    exec 9<"${TMPDIR:-/tmp}" && flock -w 300 9 2>/dev/null
  fi
  for made in "$table.XXXXXX" "${TMPDIR:-/tmp}/gym-rewards.XXXXXX"; do
    made=$(mktemp -- "$made" 2>/dev/null) || continue
    for reader in python awk; do
      if [ "$reader" = python ] && ! python3 -I -S -c 'import json, sys; sys.exit(sys.version_info < (3, 6))' 2>/dev/null; then
        continue
      fi
      if { printf '%s\n' "$state" && _gym_summarise "$reader" "$rollouts" "$failures" && echo end; } 2>/dev/null >"$made"; then
        if [[ $made = "$table".* ]] && chmod 644 -- "$made" && mv -f -- "$made" "$table"; then made=$table; fi
        printf '%s' "$made"
        return 0
      fi
    done
    rm -f -- "$made" # that file system is full: elsewhere, then
  done
  return 1
}

# gym_summary TAG ROLLOUTS FAILURES TABLE WHAT CAP: frame "summary TAG STATUS" with the summary; STATUS is ok, missing,
# failed or large. WHAT is "summary", or "table" for the tasks as well. More than CAP bytes are not sent.
gym_summary() {
  local tag=$1 rollouts=$2 failures=$3 table=$4 what=$5 cap=$6 path
  if [ ! -f "$rollouts" ]; then
    frame summary "$tag" missing
    return
  fi
  path=$(_gym_table "$rollouts" "$failures" "$table")
  if [ -z "$path" ]; then
    frame summary "$tag" failed
  elif [ "$what" = table ] && [ "$(stat -c %s -- "$path")" -gt "$cap" ]; then
    frame summary "$tag" large
    grep -v '^t' -- "$path"
  else
    frame summary "$tag" ok
    if [ "$what" = table ]; then cat -- "$path"; else grep -v '^t' -- "$path"; fi
  fi
  if [ -n "$path" ] && [ "$path" != "$table" ]; then rm -f -- "$path"; fi
}

# gym_results TAG FILE CAP: frame "results TAG STATUS SIZE EPOCH" with the file of a custom harness in base64.
gym_results() {
  local tag=$1 size written
  if ! size=$(stat -L -c '%s %Y' -- "$2" 2>/dev/null); then
    frame results "$tag" missing
    return
  fi
  written=${size#* } size=${size% *}
  if [ ! -f "$2" ] || [ "$size" -gt "$3" ]; then
    frame results "$tag" large "$size"
  else
    frame results "$tag" ok "$size" "$written"
    base64 2>/dev/null <"$2"
  fi
}
