#!/bin/bash
#SBATCH --job-name=gym-swe
#SBATCH --account=acct
#SBATCH --chdir=/scratch/evals/gym-job-20260101T000000Z-abcdef/swe
#SBATCH --partition=batch
#SBATCH --nodes=1
#SBATCH --ntasks-per-node=1
#SBATCH --no-requeue

# Benchmark swe: first the services, then a health check of each, then the driver that runs the evaluation.
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
if ((${#nodes[@]} < 1)); then
  say "this job needs 1 nodes and has ${#nodes[@]}: $SLURM_JOB_NODELIST"
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

# Service policy: vLLM on one node.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=policy \
  --no-container-mount-home \
  --container-image=vllm/image:1 \
  bash -s <<'END_POLICY' >>logs/policy-"$SLURM_JOB_ID".log 2>&1 &
{
exec vllm serve org/model \
  --port 8000 \
  --tensor-parallel-size 1
} </dev/null
END_POLICY
started policy logs/policy-"$SLURM_JOB_ID".log

# Health checks: the driver starts when every service answers.
wait_healthy policy logs/policy-"$SLURM_JOB_ID".log 12 http://localhost:8000/health
check_alive

driver_status=0
# The driver: swe.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=driver \
  --no-container-mount-home \
  --container-image=harness:1 \
  --container-mounts=/scratch/evals/gym-job-20260101T000000Z-abcdef/swe:/scratch/evals/gym-job-20260101T000000Z-abcdef/swe \
  --container-workdir=/scratch/evals/gym-job-20260101T000000Z-abcdef/swe \
  bash -s <<'END_DRIVER' >>logs/driver-"$SLURM_JOB_ID".log 2>&1 || driver_status=$?
{
set -euo pipefail

export NEMO_GYM_BENCH_DIR=/scratch/evals/gym-job-20260101T000000Z-abcdef/swe
export NEMO_GYM_POLICY_BASE_URL=http://"${HEAD_NODE_IP}":8000/v1
export NEMO_GYM_POLICY_MODEL_NAME=org/model
export NEMO_GYM_POLICY_API_KEY=dummy

# Anything a shell can do.
./harness --url "$NEMO_GYM_POLICY_BASE_URL" --out "$NEMO_GYM_BENCH_DIR/out"
tail -n 1 "${NEMO_GYM_BENCH_DIR}/out/score.txt"

} </dev/null
END_DRIVER
say "the driver ended with status $driver_status, log" logs/driver-"$SLURM_JOB_ID".log
exit "$driver_status"
