#!/bin/bash
#SBATCH --job-name=gym-gpqa
#SBATCH --account=acct
#SBATCH --chdir=/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa
#SBATCH --partition=batch
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=4
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
if ((${#nodes[@]} < 3)); then
  say "this job needs 3 nodes and has ${#nodes[@]}: $SLURM_JOB_NODELIST"
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
GYM_POOL_PREFILL_NODES=$(IFS=, && echo "${nodes[*]:0:1}")
export GYM_POOL_PREFILL_NODES
GYM_POOL_DECODE_NODES=$(IFS=, && echo "${nodes[*]:1:2}")
export GYM_POOL_DECODE_NODES

# Service llm-prefill: vLLM on one node.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=llm-prefill \
  --nodelist="${nodes[0]}" \
  --no-container-mount-home \
  --container-image=vllm/image:1 \
  bash -s <<'END_LLM_PREFILL' >>logs/llm-prefill-"$SLURM_JOB_ID".log 2>&1 &
{
VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname)
export VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_NIXL_SIDE_CHANNEL_PORT=5600
exec vllm serve /ckpt \
  --port 8001 \
  --tensor-parallel-size 4 \
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_producer", "kv_load_failure_policy": "fail"}'
} </dev/null
END_LLM_PREFILL
started llm-prefill logs/llm-prefill-"$SLURM_JOB_ID".log

# Service llm-decode: the node that serves the API, and the first ranks.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=llm-decode \
  --nodelist="${nodes[1]}" \
  --no-container-mount-home \
  --container-image=vllm/image:1 \
  bash -s -- 0 "${addresses[1]}" <<'END_LLM_DECODE' >>logs/llm-decode-"$SLURM_JOB_ID".log 2>&1 &
{
VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname)
export VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_NIXL_SIDE_CHANNEL_PORT=5601
export UCX_TLS=rc,cuda_copy
export NCCL_DEBUG=WARN

exec vllm serve /ckpt \
  --port 8002 \
  --tensor-parallel-size 4 \
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_consumer", "kv_load_failure_policy": "fail"}' \
  --data-parallel-size 2 \
  --data-parallel-size-local 1 \
  --data-parallel-address "$2" \
  --data-parallel-rpc-port 13346
} </dev/null
END_LLM_DECODE
started llm-decode logs/llm-decode-"$SLURM_JOB_ID".log

# Service llm-decode: the other ranks, without an API.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=llm-decode \
  --nodelist="${nodes[2]}" \
  --no-container-mount-home \
  --container-image=vllm/image:1 \
  bash -s -- 0 "${addresses[1]}" <<'END_LLM_DECODE' >>logs/llm-decode-"$SLURM_JOB_ID".log 2>&1 &
{
VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname)
export VLLM_NIXL_SIDE_CHANNEL_HOST VLLM_NIXL_SIDE_CHANNEL_PORT=5601
export UCX_TLS=rc,cuda_copy
export NCCL_DEBUG=WARN

exec vllm serve /ckpt \
  --port 8002 \
  --tensor-parallel-size 4 \
  --kv-transfer-config '{"kv_connector": "NixlConnector", "kv_role": "kv_consumer", "kv_load_failure_policy": "fail"}' \
  --headless \
  --data-parallel-start-rank "$((($1 + 1) * 1))" \
  --data-parallel-size 2 \
  --data-parallel-size-local 1 \
  --data-parallel-address "$2" \
  --data-parallel-rpc-port 13346
} </dev/null
END_LLM_DECODE
started llm-decode logs/llm-decode-"$SLURM_JOB_ID".log

# Service llm: the router in front of the two tiers.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=llm \
  --nodelist="${nodes[0]}" \
  --no-container-mount-home \
  --container-image=reg/vllm-router:1 \
  bash -s -- 0 "${nodes[0]}" "${nodes[1]}" <<'END_LLM' >>logs/llm-"$SLURM_JOB_ID".log 2>&1 &
{
metrics_port=29000
while (: <>"/dev/tcp/127.0.0.1/$metrics_port") 2>/dev/null; do
  metrics_port=$((metrics_port + 1))
done
exec vllm-router --vllm-pd-disaggregation \
  --host 0.0.0.0 \
  --port 8000 \
  --prefill "http://${2}:8001" \
  --decode "http://${3}:8002" \
  --prefill-policy cache_aware \
  --decode-policy cache_aware \
  --intra-node-data-parallel-size 1 \
  --request-timeout-secs 86400 \
  --log-level error \
  --worker-startup-timeout-secs 180 \
  --worker-startup-check-interval 5 \
  --prometheus-port "$metrics_port"
} </dev/null
END_LLM
started llm logs/llm-"$SLURM_JOB_ID".log

# Health checks: the driver starts when every service answers.
wait_healthy llm-prefill logs/llm-prefill-"$SLURM_JOB_ID".log 12 http://localhost:8001/health
wait_healthy llm-decode logs/llm-decode-"$SLURM_JOB_ID".log 12 "http://${nodes[1]}:8002"/health
wait_healthy llm logs/llm-"$SLURM_JOB_ID".log 12 http://localhost:8000/health
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

gym eval run \
  +output_jsonl_fpath=/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa/artifacts/rollouts.jsonl \
  --model-type openai_model \
  +policy_base_url=http://localhost:8000/v1 \
  +policy_model_name=/ckpt \
  +policy_api_key=dummy \
  +require_complete=true \
  +observability_enabled=true \
  +model_call_capture_dir=/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa/model-calls
} </dev/null
END_DRIVER
say "the driver ended with status $driver_status, log" logs/driver-"$SLURM_JOB_ID".log
exit "$driver_status"
