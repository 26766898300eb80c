# Shared by real_gym.sh, real_stack.sh and real_router_ray.sh, which source it: it does nothing by itself.
# shellcheck shell=bash

# die TEXT...: says what is wrong and how to cure it, and ends the script.
die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

say() { printf '%s: %s\n' "$(basename "$0")" "$*" >&2; }

# absolute_dir DIR: makes DIR and prints its absolute path. The path goes into Hydra overrides and scripts' first
# lines, where blanks and most signs would need quoting that not every tool does: it is refused rather than risked.
absolute_dir() {
    local dir
    [ -n "${1:-}" ] || die "give the folder to install into: bash docker/$(basename "$0") DIR"
    mkdir -p -- "$1" || die "cannot make the folder $1"
    dir=$(cd -- "$1" && pwd -P)
    case $dir in
        *[!A-Za-z0-9._/-]*) die "the folder's path may hold letters, digits and . _ / - only: $dir" ;;
    esac
    printf '%s\n' "$dir"
}

# take_lock DIR: one install at a time in DIR; a second caller waits, then finds it complete.
take_lock() {
    exec 9>"$1/.lock"
    flock -w 1800 9 || die "another install into $1 has not ended within half an hour; end it, or remove $1/.lock"
}

# need_space DIR MEGABYTES: refuses to begin what would fill the disk half-way.
need_space() {
    local free
    free=$(df -Pm -- "$1" | awk 'NR == 2 { print $4 }')
    [ "$free" -ge "$2" ] || die "$1 has ${free} MB free, and this needs about $2 MB: free some, or choose another folder"
}

# python_answers PYTHON FIRST LAST: prints the program itself (not a shim) if it is between the two minor versions and
# can make a venv with pip.
python_answers() {
    "$1" -I -c "import sys, venv, ensurepip
if not (3, $2) <= sys.version_info[:2] <= (3, $3): sys.exit(1)
print(sys.executable)" 2>/dev/null
}

# python_candidates FIRST LAST: every place worth asking, best first: PATH, pyenv, uv, the usual folders.
python_candidates() {
    local minor found
    for minor in $(seq "$1" "$2"); do
        command -v "python3.$minor" || true
        for found in "${PYENV_ROOT:-$HOME/.pyenv}/versions/3.$minor".*/bin/python3 \
            "${UV_PYTHON_INSTALL_DIR:-$HOME/.local/share/uv/python}"/cpython-3."$minor"*/bin/python3 \
            "/usr/local/bin/python3.$minor" "/usr/bin/python3.$minor" "/opt/python3.$minor/bin/python3"; do
            [ ! -x "$found" ] || printf '%s\n' "$found"
        done
    done
    command -v python3 || true
}

# find_python FIRST LAST VARIABLE: prints a fitting Python; VARIABLE names the one the user may have chosen.
find_python() {
    local chosen=${!3:-} candidate
    if [ -n "$chosen" ]; then
        python_answers "$chosen" "$1" "$2" || die "$3=$chosen is no Python 3.$1 to 3.$2 with venv and ensurepip"
        return
    fi
    while read -r candidate; do
        ! python_answers "$candidate" "$1" "$2" || return 0
    done < <(python_candidates "$1" "$2")
    die "needs Python 3.$1 to 3.$2 with venv, and found none on PATH, under pyenv or uv, or in /usr and /opt." \
        "Install one ('pyenv install 3.$1', 'uv python install 3.$1', or the distribution's python3.$1 and" \
        "python3.$1-venv), or name it: $3=/path/to/python"
}

# need_python FIRST LAST VARIABLE: the distribution's own Python with venv, when none fits and it can be installed. Whether
# one fits then is for find_python to say. apt_get and can_be_root come from cluster/packages.sh.
need_python() {
    local log
    if (find_python "$@") >/dev/null 2>&1 || ! command -v apt-get >/dev/null || ! can_be_root; then return 0; fi
    log=$(mktemp /tmp/gym-apt.XXXXXX)
    say "installing python3 and python3-venv from the distribution (log: $log)"
    apt_get "$log" update && apt_get "$log" install -y --no-install-recommends python3 python3-venv || true
}

# fresh_venv PYTHON VENV: an empty virtual environment in place of whatever an interrupted run left there.
fresh_venv() {
    if [ -e "$2" ] && [ ! -e "$2/pyvenv.cfg" ]; then
        die "$2 exists and is no virtual environment: remove it, or choose another folder"
    fi
    rm -rf -- "$2"
    "$1" -m venv "$2" >&2 || die "$1 -m venv $2 failed; on Debian the module is in the package python3-venv"
}

# install_into VENV PACKAGE...: pip, with its own words kept for the moment something goes wrong.
install_into() {
    local venv=$1
    shift
    "$venv/bin/python" -m pip install --disable-pip-version-check --no-input "$@" >"$venv/pip.log" 2>&1 || {
        tail -n 20 "$venv/pip.log" >&2
        die "pip could not install $*; the whole log is $venv/pip.log"
    }
}

# is_complete VENV STAMP / mark_complete VENV STAMP: the stamp is written last, so half an install never counts, and it
# names what was installed, so a new version in the script installs anew. A Python that has gone away counts as absent.
is_complete() {
    [ "$(cat "$1/.complete" 2>/dev/null)" = "$2" ] && "$1/bin/python" -c '' 2>/dev/null
}

mark_complete() { printf '%s\n' "$2" >"$1/.complete"; }

# expose DIR PROGRAM...: links them into DIR/bin, the folder for PATH. The whole venv/bin there would put its python, pip
# and ray before those of whoever evaluates the exports.
expose() {
    local dir=$1 program
    shift
    mkdir -p "$dir/bin"
    for program in "$@"; do
        ln -sfn "$dir/venv/bin/$program" "$dir/bin/$program"
    done
}

# register_image DIR NAME: docker/cluster.sh takes a folder of commands for a container image. With its exports in the
# environment, what is in DIR/bin becomes the image NAME there, together with its Python, as in a real image. A Python
# does not know its virtual environment through a link, hence the small script.
register_image() {
    local python
    [ -n "${GYM_CLUSTER_DIR:-}" ] || return 0
    [ -d "$GYM_CLUSTER_DIR/images" ] || die "GYM_CLUSTER_DIR=$GYM_CLUSTER_DIR has no folder images: is that cluster up?"
    mkdir -p "$1/image"
    ln -sfn "$1"/bin/* "$1/image/"
    for python in python python3; do
        printf '#!/bin/sh\nexec %s/venv/bin/python "$@"\n' "$1" >"$1/image/$python"
        chmod 0755 "$1/image/$python"
    done
    ln -sfn "$1/image" "$GYM_CLUSTER_DIR/images/$2"
}
