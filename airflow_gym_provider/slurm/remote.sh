# What every script runs first on a login node. remote.py sets the _gym_ variables above it and the body below it.
# SC2154: those variables. SC2034, SC2317: what only bodies use. SC1090: start-up files of whoever logs in.
# shellcheck shell=bash disable=SC2154,SC2034,SC2317,SC1090

# A login environment may carry functions in the place of commands; `module` and its like stay, jobs may need them.
unset -f : . [ alias bg bind break builtin caller cd command compgen complete compopt continue declare dirs disown echo \
  enable eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile popd printf \
  pushd pwd read readarray readonly return set shift shopt source suspend test times trap true type typeset ulimit \
  umask unalias unset wait awk base64 cat chmod cksum cp cut date dirname env find flock grep gzip head id ls mkdir \
  mktemp mv rm sacct sacctmgr sbatch scancel scontrol sed sha256sum sinfo sleep sort squeue stat tail tar timeout touch \
  tr uname wc 2>/dev/null
IFS=$' \t\n'

# Formats, filters and defaults of the login environment would change what Slurm answers and what sbatch submits.
_gym_saved_lc_all=${LC_ALL-unset}
for _gym_name in "${!SBATCH_@}" "${!SLURM_@}" "${!SQUEUE_@}" "${!SACCT_@}" "${!SCANCEL_@}" "${!SINFO_@}" \
  "${!SCONTROL_@}" "${!SALLOC_@}" "${!SRUN_@}"; do
  [ "$_gym_name" = SLURM_CONF ] || unset "$_gym_name"
done
unset TMOUT CDPATH GREP_OPTIONS TAR_OPTIONS GZIP _POSIX2_VERSION
export LC_ALL=C SLURM_TIME_FORMAT=standard

# frame NAME [WORD...]: what is printed from here to the next frame belongs to it.
frame() {
  local IFS=' '
  printf '\n@@%s %s\n' "$_gym_nonce" "$*"
}

# framed NAME TAG SECONDS COMMAND...: its stdout as frame NAME TAG, then its status and stderr as frame NAME.end TAG STATUS.
# The stderr stays in _gym_said.
framed() {
  local name=$1 tag=$2 limit=$3 status
  shift 3
  frame "$name" "$tag"
  { _gym_said=$(timeout -k 5 "$limit" "$@" 2>&1 >&4 4>&- 3<&- </dev/null); } 4>&1
  status=$?
  frame "$name.end" "$tag" "$status"
  printf '%s\n' "$_gym_said"
}

# aside NAME SECONDS COMMAND...: run it in a process of its own, which is given up, and killed, when it takes longer: a
# file system that hangs must not keep a shell from all that has nothing to do with it. Frame late NAME SECONDS then, and
# in a shell that stays no other command of that NAME for ten minutes.
aside() {
  local name=$1 limit=$2 end job status
  shift 2
  if [ "$SECONDS" -lt "${_gym_late[$name]:-0}" ]; then
    frame late "$name" "$limit"
    return 0
  fi
  # The pipe ends with the process, which leads a group of its own: what it has started is killed with it.
  { exec {end}< <(
    set -m
    "$@" >&4 4>&- 2>/dev/null &
    printf '%s\n' "$!"
    wait
  ); } 4>&1
  read -r -t "$limit" -u "$end" job
  read -r -t "$limit" -u "$end"
  status=$?
  if [ "$status" -gt 128 ]; then
    kill -KILL -- "-$job" "$!" 2>/dev/null
    _gym_late[$name]=$((SECONDS + 600))
    frame late "$name" "$limit"
  fi
  exec {end}<&-
}
declare -gA _gym_late=()

# as_login COMMAND...: without the language and time format set above. For sbatch, which hands its environment to the job.
as_login() (
  unset SLURM_TIME_FORMAT LC_ALL
  [ "$_gym_saved_lc_all" = unset ] || export LC_ALL="$_gym_saved_lc_all"
  exec "$@"
)

_gym_has_tools() {
  local tool
  for tool in $_gym_needs; do
    type -P "$tool" >/dev/null || return 1
  done
}

# Start-up files run in a process of their own: they may print, ask, exit or redefine what stands above.
_gym_take_profile() {
  local found file='' candidate
  for candidate in ~/.bash_profile ~/.bash_login ~/.profile; do
    if [ "$_gym_login_profile" = 1 ] && [ -r "$candidate" ]; then
      file=$candidate
      break
    fi
  done
  found=$(
    {
      [ -r /etc/profile ] && . /etc/profile
      [ -n "$file" ] && . "$file"
    } >/dev/null 2>&1 3<&- </dev/null
    printf '%s\n%s\n%s\n.' "$PATH" "$SLURM_CONF" "$LD_LIBRARY_PATH"
  )
  [ "${found##*$'\n'}" = . ] || return 0
  # Not from a here-string: bash before 5.1 writes those to a file in /tmp, which may be full.
  {
    IFS= read -r PATH
    IFS= read -r SLURM_CONF
    IFS= read -r LD_LIBRARY_PATH
  } < <(printf '%s\n' "$found")
  export PATH
  if [ -n "$SLURM_CONF" ]; then export SLURM_CONF; else unset SLURM_CONF; fi
  if [ -n "$LD_LIBRARY_PATH" ]; then export LD_LIBRARY_PATH; else unset LD_LIBRARY_PATH; fi
}

if [ "$_gym_login_profile" = 1 ] || { [ -z "$_gym_slurm_bin" ] && ! _gym_has_tools; }; then
  _gym_take_profile
fi
[ -z "$_gym_slurm_bin" ] || export PATH="$_gym_slurm_bin:$PATH"

# _gym_turn NONCE: run the body. A shell that stays is given another body and another nonce.
_gym_turn() {
  _gym_nonce=$1
  frame begin
  if _gym_has_tools; then
    _gym_body
    frame end "$?"
  else
    frame error no-slurm
    printf 'Slurm is not on the PATH of %s (looked for %s in %s). Set slurm_bin (a field of the connection'"'"'s extras) to the folder that holds squeue, now %s.\n' \
      "$(uname -n)" "$_gym_needs" "$PATH" "${_gym_slurm_bin:-not set}"
    frame end 127
  fi
  _gym_ended=$_gym_nonce
}
_gym_turn "$_gym_nonce"
