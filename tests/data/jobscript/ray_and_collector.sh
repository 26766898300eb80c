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
GYM_POOL_GPU_NODES=$(IFS=, && echo "${nodes[*]:0:1}")
export GYM_POOL_GPU_NODES
GYM_POOL_AUX_NODES=$(IFS=, && echo "${nodes[*]:1:2}")
export GYM_POOL_AUX_NODES
export GYM_RAY_ADDRESS_TOOLS="${nodes[0]}:6379"

# Ray refuses whoever does not know its token, and would make one up on the first node: all steps get the same. What the
# submitting environment says wins.
export RAY_AUTH_MODE="${RAY_AUTH_MODE:-token}"
if [[ $RAY_AUTH_MODE == token && -z ${RAY_AUTH_TOKEN:-}${RAY_AUTH_TOKEN_PATH:-} ]]; then
  RAY_AUTH_TOKEN=$(od -An -N32 -tx1 /dev/urandom | tr -d ' \n')
  export RAY_AUTH_TOKEN
fi

# The collector's configuration. The shell fills in hosts and job id; the token stays a reference that the collector
# resolves from its environment.
mkdir -p otel
rm -f otel/collector.yaml
# Private, for the address may hold a credential.
(umask 077 && cat >otel/collector.yaml) <<END_COLLECTOR_CONFIG
extensions:
  health_check:
    endpoint: 0.0.0.0:13133
receivers:
  otlp:
    protocols:
      grpc: {endpoint: 0.0.0.0:4317}
      http: {endpoint: 0.0.0.0:4318}
  prometheus:
    config:
      scrape_configs:
        - job_name: "gym-vllm/policy"
          scrape_interval: 15s
          static_configs:
            - targets: ["${nodes[0]}:8000"]
              labels: {gym_service: "policy"}
        - job_name: "dcgm"
          scrape_interval: 15s
          static_configs:
            - targets: ["${nodes[0]}:9400", "${nodes[1]}:9400", "${nodes[2]}:9400"]
        - job_name: "node"
          scrape_interval: 15s
          static_configs:
            - targets: ["${nodes[0]}:9100", "${nodes[1]}:9100", "${nodes[2]}:9100"]
connectors:
  spanmetrics:
    metrics_flush_interval: 15s
processors:
  batch: {}
  # vllm:x becomes vllm_x here and not by relabelling in the scrape, which would lose the metric's type.
  transform/names:
    metric_statements:
      - context: metric
        statements: ['replace_pattern(metric.name, "^vllm:", "vllm_")']
  resource:
    attributes:
      - {key: service.name.override, from_attribute: service.name, action: insert}
      - {key: service.name, value: "my-evals", action: upsert}
      - {key: run_id, value: "gym-job-20260101T000000Z-abcdef", action: upsert}
      - {key: benchmark, value: "gpqa", action: upsert}
      - {key: cluster, value: "cluster", action: upsert}
      - {key: model, value: "org/model", action: upsert}
      - {key: user, value: "${USER:-$(id -un)}", action: upsert}
      - {key: slurm_job_id, value: "$SLURM_JOB_ID", action: upsert}
exporters:
  otlphttp:
    endpoint: "https://otlp.example.com"
    headers: {Authorization: "Bearer \${env:OTEL_TOKEN}"}
  # Appended to: the jobs of a chain share these files.
  file/metrics: {path: "/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa/otel/metrics.jsonl", append: true}
  file/traces: {path: "/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa/otel/traces.jsonl", append: true}
  file/logs: {path: "/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa/otel/logs.jsonl", append: true}
service:
  extensions: [health_check]
  telemetry: {metrics: {level: none}}
  pipelines:
    metrics:
      receivers: [prometheus, otlp, spanmetrics]
      processors: [transform/names, resource, batch]
      exporters: [otlphttp, file/metrics]
    traces:
      receivers: [otlp]
      processors: [resource, batch]
      exporters: [otlphttp, file/traces, spanmetrics]
    logs:
      receivers: [otlp]
      processors: [resource, batch]
      exporters: [otlphttp, file/logs]
END_COLLECTOR_CONFIG

# The collector, on the driver's node; it listens before any service starts.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=collector --nodelist="${nodes[0]}" \
  otelcol-contrib --config /scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa/otel/collector.yaml </dev/null >>logs/collector-"$SLURM_JOB_ID".log 2>&1 &
collector_pid=$!
started collector logs/collector-"$SLURM_JOB_ID".log
wait_healthy collector logs/collector-"$SLURM_JOB_ID".log 60 "http://localhost:13133/"

# Service policy: vLLM on one node.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=policy \
  --nodelist="${nodes[0]}" \
  --no-container-mount-home \
  --container-image=vllm/image:1 \
  bash -s <<'END_POLICY' >>logs/policy-"$SLURM_JOB_ID".log 2>&1 &
{
exec vllm serve org/model \
  --port 8000 \
  --tensor-parallel-size 4
} </dev/null
END_POLICY
started policy logs/policy-"$SLURM_JOB_ID".log

# Service tools: the head of a Ray cluster.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=tools \
  --nodelist="${nodes[0]}" \
  --no-container-mount-home \
  --container-image=rayproject/ray:2.50.0 \
  bash -s -- 0 "${addresses[0]}" <<'END_TOOLS' >>logs/tools-"$SLURM_JOB_ID".log 2>&1 &
{
exec ray start \
  --head \
  --port=6379 \
  --num-cpus=12 \
  --num-gpus=0 \
  --include-dashboard=false \
  --block
} </dev/null
END_TOOLS
started tools logs/tools-"$SLURM_JOB_ID".log

# Service tools: its workers on pool aux.
place=0
for node in 1 2; do
  srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=tools_aux_workers \
    --nodelist="${nodes[node]}" \
    --no-container-mount-home \
    --container-image=rayproject/ray:2.50.0 \
    bash -s -- "$place" "${addresses[0]}" <<'END_TOOLS_AUX_WORKERS' >>logs/tools_aux_workers-"$SLURM_JOB_ID".log 2>&1 &
{
until ray status --address="$2:6379" >/dev/null 2>&1; do
  sleep 5
done
exec ray start \
  --address="$2:6379" \
  --num-cpus=12 \
  --num-gpus=0 \
  --resources='{"extra_gpu": 4}' \
  --block
} </dev/null
END_TOOLS_AUX_WORKERS
  started tools logs/tools_aux_workers-"$SLURM_JOB_ID".log
  place=$((place + 1))
done

# Health checks: the driver starts when every service answers.
wait_healthy policy logs/policy-"$SLURM_JOB_ID".log 12 http://localhost:8000/health
wait_healthy tools logs/tools-"$SLURM_JOB_ID".log 12 http://localhost:8265/api/version
check_alive

driver_status=0
# The driver: gpqa.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=driver \
  --nodelist="${nodes[0]}" \
  --no-container-mount-home \
  --container-image=python:3.12 \
  --container-mounts=/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa:/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa \
  --container-workdir=/scratch/evals/gym-job-20260101T000000Z-abcdef/gpqa \
  bash -s <<'END_DRIVER' >>logs/driver-"$SLURM_JOB_ID".log 2>&1 || driver_status=$?
{
set -euo pipefail
export NEMO_GYM_OTEL_ENABLED=1
export NEMO_GYM_OTEL_RUN_ID=gym-job-20260101T000000Z-abcdef
export NEMO_GYM_OTEL_SPAN_GROUPS=default,verify
export NEMO_GYM_OTEL_LOGS_ENABLED=1
export OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318
[[ ! -v GYM_RAY_ADDRESS_TOOLS ]] || export RAY="$GYM_RAY_ADDRESS_TOOLS"

# Gym from a checkout of its own, in a fresh virtual environment; both go away with the step.
if ! command -v uv >/dev/null; then
  # Newer Debian images refuse a plain pip install without this; older pips ignore it.
  PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --quiet uv
fi
gym_checkout=$(mktemp -d)
trap 'rm -rf "$gym_checkout"' EXIT
cd "$gym_checkout"
git clone https://github.com/NVIDIA-NeMo/gym .
git checkout main --
uv venv .venv
export VIRTUAL_ENV="$gym_checkout/.venv" PATH="$gym_checkout/.venv/bin:$PATH"
uv pip install -e '.[telemetry]'

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

# One more scrape, then the collector has to flush. SIGTERM goes to the collector itself, since srun would kill it.
sleep 15
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=collector --nodelist="${nodes[0]}" \
  pkill --signal TERM --full -- '^([^ ]+ )?([^ ]*/)?otelcol\-contrib --config /scratch/evals/gym\-job\-20260101T000000Z\-abcdef/gpqa/otel/collector\.yaml$' </dev/null >>logs/collector-"$SLURM_JOB_ID".log 2>&1
for pause in 1 1 2 3 5 8 10; do
  kill -0 "$collector_pid" 2>/dev/null || break
  sleep "$pause"
done
exit "$driver_status"
