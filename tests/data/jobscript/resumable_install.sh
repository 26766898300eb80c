#!/bin/bash
#SBATCH --job-name=gym-mcqa
#SBATCH --account=acct
#SBATCH --time=30
#SBATCH --chdir=/scratch/evals/gym-job-20260101T000000Z-abcdef/mcqa
#SBATCH --no-requeue

# Benchmark mcqa: first the services, then a health check of each, then the driver that runs the evaluation.
# Keep this file private (mode 0600): it may hold secrets. For the same reason the steps below get their shell text on
# standard input: what stands in an argument can be read by every account on the node.
# shellcheck disable=SC2016 # values of the config are data: a dollar in them is not to be expanded
set -uo pipefail

# Steps see the job's variables even if the job itself was submitted with --export=NONE.
export SLURM_EXPORT_ENV=ALL
mkdir -p logs artifacts

say() { printf '%(%F %T)T %s\n' -1 "$*"; }

driver_status=0
# The driver: mcqa.
srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --job-name=driver \
  --no-container-mount-home \
  --container-image=python:3.12 \
  --container-mounts=/scratch/evals/gym-job-20260101T000000Z-abcdef/mcqa:/scratch/evals/gym-job-20260101T000000Z-abcdef/mcqa \
  --container-workdir=/scratch/evals/gym-job-20260101T000000Z-abcdef/mcqa \
  bash -s <<'END_DRIVER' >>logs/driver-"$SLURM_JOB_ID".log 2>&1 || driver_status=$?
{
set -euo pipefail

# Gym from a checkout of its own, in a fresh virtual environment; both go away with the step.
if ! command -v uv >/dev/null; then
  # Newer Debian images refuse a plain pip install without this; older pips ignore it.
  PIP_BREAK_SYSTEM_PACKAGES=1 python3 -m pip install --quiet uv
fi
gym_checkout=$(mktemp -d)
trap 'rm -rf "$gym_checkout"' EXIT
cd "$gym_checkout"
git clone https://github.com/NVIDIA-NeMo/gym .
git checkout v0.7.0 --
uv venv .venv
export VIRTUAL_ENV="$gym_checkout/.venv" PATH="$gym_checkout/.venv/bin:$PATH"
uv pip install -e .

# A hard kill can cut the last line of these files short, and Gym 0.4.0 cannot resume from half a line.
for gym_file in /scratch/evals/gym-job-20260101T000000Z-abcdef/mcqa/artifacts/rollouts.jsonl /scratch/evals/gym-job-20260101T000000Z-abcdef/mcqa/artifacts/rollouts_failures.jsonl; do
  if [[ -s $gym_file && -n $(tail -c 1 -- "$gym_file") ]]; then
    echo "removing the unfinished last line of $gym_file"
    truncate -s "-$(tail -n 1 -- "$gym_file" | wc -c)" -- "$gym_file"
  fi
done

gym eval run \
  +output_jsonl_fpath=/scratch/evals/gym-job-20260101T000000Z-abcdef/mcqa/artifacts/rollouts.jsonl \
  +require_complete=false \
  +observability_enabled=true \
  +model_call_capture_dir=/scratch/evals/gym-job-20260101T000000Z-abcdef/mcqa/model-calls \
  +resume_from_cache=true \
  +num_samples_in_parallel=64
} </dev/null
END_DRIVER
say "the driver ended with status $driver_status, log" logs/driver-"$SLURM_JOB_ID".log
exit "$driver_status"
