#!/bin/bash
#SBATCH --job-name=gym-gpqa
#SBATCH --account=acct
#SBATCH --time=04:00:00
#SBATCH --chdir="/lustre/my evals/gym-job-20260101T000000Z-abcdef/gpqa"
#SBATCH --partition=batch
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
#SBATCH --comment="it's #1"
#SBATCH --exclusive
#SBATCH --qos=high
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

# Service policy: vLLM on one node.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=policy \
  --no-container-mount-home \
  --container-image=vllm/vllm-openai:v0.11.0 \
  --container-mounts=/models:/models,/cache:/opt/cache:ro \
  bash -s <<'END_POLICY' >>logs/policy-"$SLURM_JOB_ID".log 2>&1 &
{
[[ ! -v CUDA_VISIBLE_DEVICES ]] || export CUDA_VISIBLE_DEVICES="$CUDA_VISIBLE_DEVICES"
export HF_TOKEN='hf_it'\''s a secret'
export GREETING=$'it\'s $5\non two lines'
unset RAY_ADDRESS
export VLLM_HOST_IP=$(hostname -I | cut -d' ' -f1)

exec vllm serve /models/llama \
  --port 8000 \
  --tensor-parallel-size 2 \
  --served-model-name llama \
  --trust-remote-code \
  --data-parallel-size 2 \
  --max-model-len 8192 --hf-overrides '{"rope_scaling": {"factor": 2.0}}'
} </dev/null
END_POLICY
started policy logs/policy-"$SLURM_JOB_ID".log

# Service judge: vLLM on one node.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=judge \
  --no-container-mount-home \
  --container-image=vllm/vllm-openai:v0.11.0 \
  bash -s <<'END_JUDGE' >>logs/judge-"$SLURM_JOB_ID".log 2>&1 &
{
exec vllm serve org/judge \
  --port 8100 \
  --tensor-parallel-size 1
} </dev/null
END_JUDGE
started judge logs/judge-"$SLURM_JOB_ID".log

# Health checks: the driver starts when every service answers.
wait_healthy policy logs/policy-"$SLURM_JOB_ID".log 12 http://localhost:8000/health
wait_healthy judge logs/judge-"$SLURM_JOB_ID".log 240 'http://localhost:8100/ready?deep=1&x=$y'
check_alive

driver_status=0
# The driver: gpqa.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=driver \
  --no-container-mount-home \
  --container-image=reg/gym:9 \
  '--container-mounts=/lustre/my evals/gym-job-20260101T000000Z-abcdef/gpqa:/lustre/my evals/gym-job-20260101T000000Z-abcdef/gpqa,/data:/data' \
  '--container-workdir=/lustre/my evals/gym-job-20260101T000000Z-abcdef/gpqa' \
  bash -s <<'END_DRIVER' >>logs/driver-"$SLURM_JOB_ID".log 2>&1 || driver_status=$?
{
set -euo pipefail
export JUDGE_URL=http://localhost:8100/v1

gym eval prepare \
  +split=benchmark

gym eval run \
  '+output_jsonl_fpath="/lustre/my evals/gym-job-20260101T000000Z-abcdef/gpqa/artifacts/rollouts.jsonl"' \
  --model-type openai_model \
  +policy_base_url=http://localhost:8000/v1 \
  +policy_model_name=llama \
  +policy_api_key=dummy \
  +require_complete=true \
  +observability_enabled=true \
  '+model_call_capture_dir="/lustre/my evals/gym-job-20260101T000000Z-abcdef/gpqa/model-calls"' \
  '+config_paths=[benchmarks/gpqa/config.yaml,"a, b.yaml"]' \
  +head_server.port=11001 \
  '+prompt="hello, \"world\""' \
  +temperature=0.5 \
  +stop=null
} </dev/null
END_DRIVER
say "the driver ended with status $driver_status, log" logs/driver-"$SLURM_JOB_ID".log
exit "$driver_status"
