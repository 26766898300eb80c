#!/bin/bash
#SBATCH --job-name=gym-gpqa
#SBATCH --account=acct
#SBATCH --chdir=/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa
#SBATCH --partition=batch
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --no-requeue

# Benchmark gpqa: first the services, then a health check of each, then the driver that runs the evaluation.
# Keep this file private (mode 0600): it may hold secrets. For the same reason the steps below get their shell text on
# standard input: what stands in an argument can be read by every account on the node.
# shellcheck disable=SC2016 # values of the config are data: a dollar in them is not to be expanded
set -uo pipefail

# Steps see the job's variables even if the job itself was submitted with --export=NONE.
export SLURM_EXPORT_ENV=ALL
mkdir -p logs artifacts

say() { printf '%(%F %T)T %s\n' -1 "$*"; }

# What runs in the background: names, logs and PIDs, one entry per process.
step_names=() step_logs=() step_pids=()

# started NAME LOG: remember the step that was put into the background just now.
started() {
  step_names+=("$1") step_logs+=("$2") step_pids+=("$!")
  say "started $1, log $2"
}

# fail NAME LOG REASON: end the job before any benchmark runs.
fail() {
  say "$1 $3, so no benchmark runs. The end of $2:"
  tail -n 40 -- "$2"
  exit 1
}

# A service that has ended, with whatever status, is not going to be healthy.
check_alive() {
  local i
  for i in "${!step_pids[@]}"; do
    kill -0 "${step_pids[i]}" 2>/dev/null || fail "${step_names[i]}" "${step_logs[i]}" 'has ended by itself'
  done
}

# wait_healthy NAME LOG ATTEMPTS URL: one attempt every five seconds.
wait_healthy() {
  local attempt
  for ((attempt = 1; attempt <= $3; attempt++)); do
    check_alive
    # --globoff: brackets in a path are no pattern; --noproxy: the job's own nodes are never behind a proxy.
    if curl --silent --fail --globoff --noproxy '*' --max-time 5 --output /dev/null "$4"; then
      say "$1 is healthy"
      return
    fi
    sleep 5
  done
  fail "$1" "$2" "did not answer at $4 in $3 attempts"
}

# The hosts of the allocation, in order; services and pools are positions in this list.
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
if ((${#nodes[@]} < 4)); then
  say "this job needs 4 nodes and has ${#nodes[@]}: $SLURM_JOB_NODELIST"
  exit 1
fi

# address_of HOST: an address that other nodes can reach. Many systems give their own name a loopback address.
address_of() {
  local address
  read -r address _ < <(getent ahostsv4 "$1" || getent hosts "$1")
  case ${address:=$1} in
    127.* | ::1)
      [[ $1 != "${SLURMD_NODENAME:-}" ]] || read -r address _ < <(hostname -I)
      ;;
  esac
  printf '%s\n' "$address"
}
addresses=()
for node in "${nodes[@]}"; do
  addresses+=("$(address_of "$node")")
done
export HEAD_NODE_IP="${addresses[0]}"
export RAY_HEAD_NODE_IP="${addresses[0]}"

# Ray refuses whoever does not know its token, and would make one up on the first node: all steps get the same. What the
# submitting environment says wins.
export RAY_AUTH_MODE="${RAY_AUTH_MODE:-token}"
if [[ $RAY_AUTH_MODE == token && -z ${RAY_AUTH_TOKEN:-}${RAY_AUTH_TOKEN_PATH:-} ]]; then
  RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
  export RAY_AUTH_TOKEN
fi

# Service policy: the Ray Serve gateway and its vLLM instances.
place=0
for node in 0 1 2 3; do
  srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=policy \
    --nodelist="${nodes[node]}" \
    --no-container-mount-home \
    --container-image=vllm/image:1 \
    bash -s -- "$place" "${addresses[0]}" <<'END_POLICY' >>logs/policy-"$SLURM_JOB_ID".log 2>&1 &
{
ray_address="$2:6379"

start_ray_head() {
  ray start --head --port=6379 || exit
  # A placement is tried with the nodes that are there, so wait for all of them. A Ray that reports nothing is trusted.
  local status
  until status=$(ray status --address="$ray_address") &&
    [[ -z $status || $(grep -c ' node_' <<<"$status") -ge 4 ]]; do
    sleep 5
  done
}

join_ray() {
  until ray status --address="$ray_address" >/dev/null 2>&1; do
    sleep 5
  done
  exec ray start --address="$ray_address" --block
}


# Every node needs Ray Serve and aiohttp. Ray keeps the version that vLLM was built with.
install_missing() {
  python3 -c 'import aiohttp, ray.serve' 2>/dev/null && return
  local version
  version=$(python3 -c 'import ray; print("==" + ray.__version__)' 2>/dev/null)
  # Newer Debian images refuse a plain pip install without this; older pips ignore it.
  PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --quiet aiohttp "ray[serve]$version"
}

# Ray would hide all GPUs from the gateway's replicas, which ask for none: their servers do.
export RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO=0
export RAY_ADDRESS="$ray_address"
command -v ray >/dev/null || install_missing
# Beside the start of Ray; the gateway waits for this on every node before it puts a replica there.
install_missing &
if (($1 > 0)); then
  join_ray
fi
start_ray_head
wait

gateway_program=$(mktemp)
cat >"$gateway_program" <<'END_GATEWAY_PROGRAM'
"""One endpoint in front of several vLLM instances: a Ray Serve deployment whose replicas each run a `vllm serve`.

This program travels inside the job script and runs in the vLLM image, on the head node of a Ray cluster that is up
already. It knows nothing of the package it came from. A replica starts its server on a free local port and passes every
request on to it, streamed answers included, without a limit of requests or time of its own. `/health` answers 200 only
while all replicas are running; on SIGTERM replicas and servers end with it.

usage: gateway.py --port P --instances N [--per-node K] -- COMMAND...   (COMMAND is `vllm serve ...` without --port)
"""
# mypy: disable-error-code="import-not-found,import-untyped,untyped-decorator,misc,no-any-return,attr-defined"

from __future__ import annotations

import argparse
import ctypes
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import uuid
from collections.abc import AsyncIterator
from types import FrameType
from typing import Any

import aiohttp
import ray
from ray import serve
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

APPLICATION = NAMESPACE = "gateway"
DEPLOYMENT = "vllm"
ROLL = "roll"
# Headers about one connection, not about the message; each side of the gateway has its own.
OWN_HEADERS = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer", "transfer-encoding"}
    | {"upgrade"}
)
BEAT_SECONDS = 1.0
STALE_SECONDS = 10.0


class Server:
    """One `vllm serve` on this node, as a child that does not outlive this process."""

    def __init__(self, command: list[str]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        environment = dict(os.environ, RAY_ADDRESS=ray.get_runtime_context().gcs_address)
        # Ray hides all GPUs from an actor that asked for none; the server's own workers are given theirs by Ray.
        if environment.get("CUDA_VISIBLE_DEVICES") == "":
            del environment["CUDA_VISIBLE_DEVICES"]
        self.process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(self.port)],
            env=environment,
            start_new_session=True,
            preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, no lock is taken
        )

    @property
    def url(self) -> str:
        """Where the server listens."""
        return f"http://127.0.0.1:{self.port}"

    def wait_until_healthy(self) -> None:
        """Return when the server answers; there is no limit but the job's own health check."""
        while True:
            self.check()
            try:
                with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.url}/health", timeout=5):
                    return
            except OSError:
                time.sleep(1)

    def check(self) -> None:
        """Raise when the server has ended."""
        if self.process.poll() is not None:
            raise RuntimeError(f"vllm serve ended with status {self.process.returncode}")

    def stop(self) -> None:
        """End the server and everything it started; at most ten seconds of grace."""
        for number, patience in ((signal.SIGTERM, 10), (signal.SIGKILL, 5)):
            if self.process.poll() is not None:
                return
            os.killpg(self.process.pid, number)
            try:
                self.process.wait(patience)
            except subprocess.TimeoutExpired:
                continue


def end_with_parent() -> None:
    """Ask the kernel for SIGTERM when the replica is gone, however it went."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


class Roll:
    """Which instances are up, by what their replicas say every second. Runs as one actor, so that all ask the same."""

    def __init__(self) -> None:
        self.said: dict[str, float] = {}

    def up(self, replica: str) -> None:
        """This replica's server is alive."""
        self.said[replica] = time.monotonic()

    def down(self, replica: str) -> None:
        """This replica's server does not answer, or is gone."""
        self.said.pop(replica, None)

    def count(self) -> int:
        """Instances that are up. A replica that has not said so for ten seconds is gone, with its node perhaps."""
        return sum(time.monotonic() - said < STALE_SECONDS for said in self.said.values())


@serve.deployment(
    name=DEPLOYMENT,
    # No limit of ours: vLLM does its own queueing.
    max_ongoing_requests=1_000_000,
    health_check_period_s=2,
    health_check_timeout_s=60,
    graceful_shutdown_timeout_s=15,
    graceful_shutdown_wait_loop_s=1,
)
class Replica:
    """One instance; running, for Ray Serve, from the moment its server is healthy."""

    def __init__(self, command: list[str], instances: int) -> None:
        self.instances = instances
        self.session: aiohttp.ClientSession | None = None
        self.name = uuid.uuid4().hex
        self.roll = ray.get_actor(ROLL, namespace=NAMESPACE)
        self.server = Server(command)
        # The thread that starts a child must live on, or the kernel takes the parent for gone: this one does.
        try:
            self.server.wait_until_healthy()
        except BaseException:
            self.server.stop()
            raise
        threading.Thread(target=self.answer_the_roll, daemon=True).start()

    def answer_the_roll(self) -> None:
        """Say every second that the server is alive, and the moment it is not."""
        while self.server.process.poll() is None:
            self.roll.up.remote(self.name)
            time.sleep(BEAT_SECONDS)
        self.roll.down.remote(self.name)

    async def __call__(self, request: Request) -> Response:
        """Every request that reaches the gateway's port."""
        if request.url.path == "/health":
            return await self.health()
        return await self.forward(request)

    async def health(self) -> Response:
        """Healthy only when this one's server answers and all the others are up."""
        try:
            async with self.client().get(f"{self.server.url}/health") as answer:
                status, text = answer.status, await answer.text()
        except aiohttp.ClientError as error:
            await self.roll.down.remote(self.name)
            return PlainTextResponse(f"an instance does not answer: {error}", status_code=503)
        up = await self.roll.count.remote()
        if up < self.instances:
            return PlainTextResponse(f"{up} of {self.instances} instances are up", status_code=503)
        return PlainTextResponse(text, status_code=status)

    async def forward(self, request: Request) -> Response:
        """Pass the request on as it came, and the answer back while it is still being written."""
        path = request.scope.get("raw_path") or request.url.path.encode()
        url = self.server.url + path.decode("latin-1").partition("?")[0]
        if request.url.query:
            url += f"?{request.url.query}"
        headers = [(name, value) for name, value in request.headers.items() if name not in OWN_HEADERS | {"host"}]
        try:
            answer = await self.client().request(
                request.method,
                aiohttp.client.URL(url, encoded=True),
                headers=headers,
                data=await request.body() or None,
                allow_redirects=False,
                skip_auto_headers=("Accept-Encoding", "Content-Type", "User-Agent"),
            )
        except aiohttp.ClientError as error:
            return PlainTextResponse(f"the instance does not answer: {error}", status_code=502)
        kept = {name: value for name, value in answer.headers.items() if name.lower() not in OWN_HEADERS}
        return StreamingResponse(stream(answer), status_code=answer.status, headers=kept)

    def client(self) -> aiohttp.ClientSession:
        """The HTTP client, made on first use since it belongs to the event loop; it has no limits."""
        if self.session is None:
            self.session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, connect=None, sock_connect=None, sock_read=None),
                connector=aiohttp.TCPConnector(limit=0),
                auto_decompress=False,
            )
        return self.session

    def check_health(self) -> None:
        """Asked by Ray Serve; a replica whose server has ended is replaced."""
        self.server.check()

    def __del__(self) -> None:
        server = getattr(self, "server", None)
        if server is not None:
            server.stop()


async def stream(answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """The answer's bytes as they come. When the client goes away, so does the connection, and vLLM stops computing."""
    try:
        async for chunk in answer.content.iter_any():
            yield chunk
    finally:
        answer.close()


def has_what_it_needs() -> str:
    """Runs on every node before any replica does: returns once what the image lacked has been installed there."""
    for _ in range(450):
        if subprocess.run([sys.executable, "-c", "import aiohttp, ray.serve"], check=False).returncode == 0:
            return socket.gethostname()
        time.sleep(2)
    raise RuntimeError(f"aiohttp or Ray Serve cannot be imported on {socket.gethostname()}; is there a package index?")


def wait_for_nodes() -> None:
    """Return when every node of the cluster is able to run a replica."""
    task = ray.remote(num_cpus=0)(has_what_it_needs)
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
    ray.get(
        [task.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node, soft=False)).remote() for node in nodes]
    )


def arguments() -> argparse.Namespace:
    """The command line, as the job script wrote it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--instances", type=int, required=True)
    parser.add_argument("--per-node", type=int, default=None)
    parser.add_argument("command", nargs="+")
    return parser.parse_args()


def end(_number: int, _frame: FrameType | None) -> None:
    """SIGTERM ends the program through its `finally`, also while instances are still loading."""
    sys.exit(0)


def main() -> None:
    """Deploy, then wait until told to end."""
    given = arguments()
    ray.init(address=os.environ["RAY_ADDRESS"], namespace=NAMESPACE)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    options: dict[str, Any] = {"num_replicas": given.instances, "ray_actor_options": {"num_cpus": 0}}
    if given.per_node is not None:
        options["max_replicas_per_node"] = given.per_node
    try:
        wait_for_nodes()
        roll = ray.remote(num_cpus=0)(Roll).options(name=ROLL, max_restarts=-1).remote()
        serve.start(
            proxy_location="HeadOnly",
            http_options={
                "host": "0.0.0.0",  # noqa: S104 - the driver, or an agent elsewhere, comes from another node
                "port": given.port,
                "request_timeout_s": None,
                "keep_alive_timeout_s": 3600,
            },
        )
        serve.run(Replica.options(**options).bind(given.command, given.instances), name=APPLICATION, route_prefix="/")
        print(f"{ray.get(roll.count.remote())} of {given.instances} instances are up", flush=True)
        threading.Event().wait()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        serve.shutdown()
        ray.shutdown()


if __name__ == "__main__":
    main()
END_GATEWAY_PROGRAM
exec python3 "$gateway_program" --port 8000 --instances 2 --per-node 1 -- \
  vllm serve org/model \
  --tensor-parallel-size 8 \
  --pipeline-parallel-size 2 \
  --distributed-executor-backend ray \
  --max-model-len 8192
} </dev/null
END_POLICY
  started policy logs/policy-"$SLURM_JOB_ID".log
  place=$((place + 1))
done

# Health checks: the driver starts when every service answers.
wait_healthy policy logs/policy-"$SLURM_JOB_ID".log 12 http://localhost:8000/health
check_alive

driver_status=0
# The driver: gpqa.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=driver \
  --nodelist="${nodes[0]}" \
  --no-container-mount-home \
  --container-image=gym:1 \
  --container-mounts=/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa:/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa \
  --container-workdir=/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa \
  bash -s <<'END_DRIVER' >>logs/driver-"$SLURM_JOB_ID".log 2>&1 || driver_status=$?
{
set -euo pipefail
export RAY_ADDRESS=local

gym eval run \
  +output_jsonl_fpath=/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa/artifacts/rollouts.jsonl \
  --model-type openai_model \
  +policy_base_url=http://localhost:8000/v1 \
  +policy_model_name=org/model \
  +policy_api_key=dummy \
  +require_complete=true \
  +observability_enabled=true \
  +model_call_capture_dir=/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa/model-calls
} </dev/null
END_DRIVER
say "the driver ended with status $driver_status, log" logs/driver-"$SLURM_JOB_ID".log
exit "$driver_status"
