#!/usr/bin/env bash
# Installs the real `gym` command line (nemo-gym) into DIR, with a benchmark of twenty rollouts that runs offline.
#
#   bash docker/real_gym.sh DIR             # once: about 1.5 GB and two minutes; again: a second
#   eval "$(bash docker/real_gym.sh DIR)"   # and take over PATH, REAL_GYM_DIR and REAL_GYM_OVERRIDES
#
# nemo-gym 0.4.0 is the newest that installs on Python 3.12. A Python of one's own: REAL_GYM_PYTHON=/path/to/python3.12.
# With the exports of docker/cluster.sh in the environment, that cluster gets it as the image `real-gym`, which
# real_gym/submit.yaml names. Only the exports go to standard output. DIR can be removed at any time.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source-path=SCRIPTDIR source=real_common.sh
. "$here/real_common.sh"

packages=(nemo-gym==0.4.0 'ray[default]==2.60.0')
stamp="${packages[*]}"

install_gym() {
    local python
    python=$(find_python 12 13 REAL_GYM_PYTHON)
    need_space "$dir" 2000
    say "installing ${packages[*]} with $python; this takes a minute or two"
    fresh_venv "$python" "$dir/venv"
    install_into "$dir/venv" "${packages[@]}"
    (cd "$dir" && venv/bin/gym --version >/dev/null) || die "the installed gym does not start; remove $dir/venv and try again"
    mark_complete "$dir/venv" "$stamp"
}

# Each gym server runs in a virtual environment of its own, which gym makes with uv from the network. With
# skip_venv_if_present and uv_venv_dir it takes the ones it finds; a link to the one just made is enough.
link_server_venvs() {
    local server
    for server in resources_servers/mcqa responses_api_agents/simple_agent responses_api_models/openai_model \
        responses_api_models/vllm_model; do
        mkdir -p "$dir/servers/$server"
        ln -sfn "$dir/venv" "$dir/servers/$server/.venv"
    done
}

print_exports() {
    cat <<EXPORTS
export REAL_GYM_DIR=$dir
export PATH="$dir/bin:\$PATH"
REAL_GYM_OVERRIDES=('+config_paths=[$dir/mcqa_small.yaml]' +split=validation +skip_venv_if_present=true +uv_venv_dir=$dir/servers)
EXPORTS
}

dir=$(absolute_dir "${1:-}")
take_lock "$dir"
is_complete "$dir/venv" "$stamp" || install_gym
link_server_venvs
expose "$dir" gym
cp "$here/real_gym/mcqa_small.yaml" "$dir/mcqa_small.yaml"
register_image "$dir" real-gym
print_exports
