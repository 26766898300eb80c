# Counts ended lines of many files in a few processes, not in some for each file. Runs after remote.sh.
# shellcheck shell=bash disable=SC2317

_gym_most=67108864 # bytes read of one file in one look; the next look goes on from there

# _gym_progress (TAG FILE OFFSET FILE OFFSET)...: a frame for each TAG with two lines: how far the file is read now, from
# where, and the lines that end between. A file that is shorter than its offset was written anew: counted from 0.
_gym_progress() {
  local tags=() files=() starts=() spans=() sizes=() counts=() i
  while [ $# -ge 5 ]; do
    tags+=("$1") files+=("$2" "$4") starts+=("$3" "$5")
    shift 5
  done
  mapfile -t sizes < <(_gym_sizes "${files[@]}")
  [ "${#sizes[@]}" = "${#files[@]}" ] || return 0
  for i in "${!files[@]}"; do
    [ "${sizes[i]}" -ge "${starts[i]}" ] || starts[i]=0
    spans[i]=$((sizes[i] - starts[i] < _gym_most ? sizes[i] - starts[i] : _gym_most))
  done
  mapfile -t counts < <(
    for i in "${!files[@]}"; do
      [ "${spans[i]}" = 0 ] || dd if="${files[i]}" bs=65536 iflag=skip_bytes,count_bytes,fullblock \
        skip="${starts[i]}" count="${spans[i]}" 2>/dev/null 3<&-
      printf '\1'
    done | tr -dc '\n\1' | awk 'BEGIN { RS = "\001" } { print gsub(/\n/, "") }'
  )
  [ "${#counts[@]}" = "${#files[@]}" ] || return 0
  for i in "${!files[@]}"; do
    [ $((i % 2)) = 1 ] || frame progress "${tags[i / 2]}"
    printf '%s %s %s\n' "$((starts[i] + spans[i]))" "${starts[i]}" "${counts[i]}"
  done
}

# _gym_sizes FILE...: a size for each, 0 for what is no file that can be read. One process for all, unless some vanish.
_gym_sizes() {
  local file there=() sizes=() i=0
  for file in "$@"; do
    [ ! -f "$file" ] || [ ! -r "$file" ] || there+=("$file")
  done
  [ "${#there[@]}" = 0 ] || mapfile -t sizes < <(stat -L -c %s -- "${there[@]}" 2>/dev/null)
  [ "${#sizes[@]}" = "${#there[@]}" ] || return 0
  for file in "$@"; do
    if [ "$i" -lt "${#there[@]}" ] && [ "${there[i]}" = "$file" ]; then
      printf '%s\n' "${sizes[i]}"
      i=$((i + 1))
    else
      printf '0\n'
    fi
  done
}
