#!/usr/bin/env bash
# Installs the real `ray` and the real `vllm-router` into DIR: the two programs, other than vLLM itself, that job scripts
# of services over several nodes and of prefill/decode services start. Neither needs a GPU.
#
#   bash docker/real_router_ray.sh DIR             # once: about 900 MB and a minute; again: a second
#   eval "$(bash docker/real_router_ray.sh DIR)"   # and take over REAL_ROUTER_RAY_DIR and PATH
#
# A Python of one's own: REAL_ROUTER_RAY_PYTHON=/path/to/python3.11.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source-path=SCRIPTDIR source=real_common.sh
. "$here/real_common.sh"

packages=('ray[default,serve]==2.60.0' vllm-router==0.1.17 aiohttp)
stamp="${packages[*]}"

install_both() {
    local python
    python=$(find_python 11 13 REAL_ROUTER_RAY_PYTHON)
    need_space "$dir" 1500
    say "installing $stamp with $python; this takes about a minute"
    fresh_venv "$python" "$dir/venv"
    install_into "$dir/venv" "${packages[@]}"
    "$dir/venv/bin/ray" --version >/dev/null || die "the installed ray does not start; remove $dir/venv and try again"
    "$dir/venv/bin/vllm-router" --help >"$dir/vllm-router-help.txt" \
        || die "the installed vllm-router does not start; remove $dir/venv and try again"
    mark_complete "$dir/venv" "$stamp"
}

dir=$(absolute_dir "${1:-}")
take_lock "$dir"
is_complete "$dir/venv" "$stamp" || install_both
expose "$dir" ray vllm-router
register_image "$dir" real-router-ray
cat <<EXPORTS
export REAL_ROUTER_RAY_DIR=$dir
export PATH="$dir/bin:\$PATH"
EXPORTS
