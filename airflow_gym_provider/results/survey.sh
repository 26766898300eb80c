# How far the result files of one benchmark are, in lines that survey.py reads. Bash, coreutils; nothing is kept in memory.
# SC2317: called by the lines that survey.py adds.
# shellcheck shell=bash disable=SC2317

# Facts of one file: NAME STATUS BYTES MTIME LINES; STATUS is ok, missing or unreadable, LINES counts ended lines only.
# Of one that is unreadable another line says why.
_gym_survey_file() {
  local facts lines='it is no regular file' status=unreadable
  if facts=$(stat -L -c '%s %Y' -- "$2" 2>&1); then
    if [ -f "$2" ] && lines=$({ wc -l <"$2"; } 2>&1); then
      printf '%s ok %s %s\n' "$1" "$facts" "$((lines))"
      return
    fi
    facts=$lines
  elif [[ $facts = *"No such file or directory" || $facts = *"Not a directory" ]]; then
    status=missing # a file system that is away says something else
  fi
  printf '%s %s 0 0 0\n' "$1" "$status"
  [ "$status" = missing ] || printf '%s because %s\n' "$1" "${facts##*: }"
}

# gym_survey TAG ROLLOUTS INPUTS FAILURES METRICS CAP: frame "survey TAG", then "metrics TAG" with the file in base64.
gym_survey() {
  local tag=$1 metrics=$5 cap=$6 facts
  frame survey "$tag"
  _gym_survey_file rollouts "$2"
  _gym_survey_file inputs "$3"
  _gym_survey_file failures "$4"
  _gym_survey_file metrics "$metrics"
  if facts=$(stat -L -c '%s' -- "$metrics" 2>/dev/null) && [ -f "$metrics" ] && [ "$facts" -le "$cap" ]; then
    frame metrics "$tag"
    base64 2>/dev/null <"$metrics"
    frame metrics.end "$tag" "$?"
  fi
}
