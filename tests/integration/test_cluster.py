"""The cluster that all tests here rely on is what it says: Slurm's own answers, before any of our code."""

import json
import time
from pathlib import Path


def test_wrong_account_is_refused_as_on_a_site(cluster):
    answer = cluster.run("sbatch --account=nobody --wrap true 2>&1", check=False)
    assert "Invalid account" in answer


def test_login_over_ssh_reaches_the_same_slurm(cluster):
    assert cluster.ssh("sinfo -h -o %P").split() == cluster.run("sinfo -h -o %P").split()


def test_node_names_resolve_where_jobs_run_and_nodes_have_gpus(cluster, tmp_path):
    script = "getent hosts n1 n2 n3 n4; srun -l env | grep SLURM_GPUS_ON_NODE"
    job = cluster.sbatch(script, "-N2", "--gpus-per-node=8", f"--output={tmp_path}/out")
    cluster.wait_for(job, "COMPLETED")
    lines = (tmp_path / "out").read_text().splitlines()
    assert len([line for line in lines if line.startswith("127.")]) == 4
    assert [line.split(": ")[1] for line in lines[4:]] == ["SLURM_GPUS_ON_NODE=8"] * 2


def test_containers_are_accepted_and_stand_ins_are_inside(cluster, tmp_path):
    step = f"srun --container-image=a/b:1 --container-mounts=/etc:/data:ro --container-workdir={tmp_path} bash -c"
    job = cluster.sbatch(f"{step} 'pwd; command -v gym vllm; echo $PYXIS_STANDIN_MOUNTS'", f"--output={tmp_path}/out")
    cluster.wait_for(job, "COMPLETED")
    cwd, gym, vllm, mounts = (tmp_path / "out").read_text().split()
    assert (cwd, mounts) == (str(tmp_path), "/etc:/data:ro")
    assert (Path(gym).parent.name, Path(vllm).parent.name) == ("standins", "standins")


def test_a_mount_without_a_source_ends_the_step(cluster, tmp_path):
    job = cluster.sbatch(
        "srun --container-image=x --container-mounts=/not/there:/data true", f"--output={tmp_path}/out"
    )
    cluster.wait_for(job, "FAILED")
    assert 'no such file or directory on this node: "/not/there"' in (tmp_path / "out").read_text()


def test_preemption_requeues_in_low_and_cancels_in_lowcancel(cluster):
    low = cluster.sbatch("sleep 60", "-plow", "-N4", "--gpus-per-node=8", "--requeue")
    cluster.wait_for(low, "RUNNING")
    high = cluster.sbatch("sleep 1", "-phigh", "-N1", "--gpus-per-node=8")
    cluster.wait_for(low, "PENDING")
    cluster.run(f"scancel {low}")
    gone = cluster.sbatch("sleep 60", "-plowcancel", "-N4", "--gpus-per-node=8")
    cluster.wait_for(gone, "RUNNING")
    again = cluster.sbatch("sleep 1", "-phigh", "-N1", "--gpus-per-node=8")
    assert cluster.wait_for(gone, "PREEMPTED", "CANCELLED").startswith("PREEMPTED")
    for job in (high, again):
        cluster.wait_for(job, "COMPLETED")


def test_two_nodes_of_one_job_use_the_same_port(cluster, tmp_path, unused_tcp_port):
    script = f"""
srun -l --container-image=x vllm serve m --port {unused_tcp_port} &
for node in $(scontrol show hostnames); do
    until curl -sf "http://$node:{unused_tcp_port}/health"; do sleep 0.2; done
    echo "$node is healthy"
done
scancel --signal=TERM --full $SLURM_JOB_ID.0; wait; exit 0
"""
    job = cluster.sbatch(script, "-N2", "--ntasks-per-node=1", f"--output={tmp_path}/out")
    cluster.wait_for(job, "COMPLETED", seconds=30)
    assert (tmp_path / "out").read_text().count("is healthy") == 2


def test_resumed_evaluation_ends_with_the_same_metrics(cluster, standins, tmp_path):
    def evaluate(folder: Path, *more: str) -> None:
        words = [f"+output_jsonl_fpath={folder}/rollouts.jsonl", "+limit=6", "+resume_from_cache=true", *more]
        cluster.run(f"{standins}/gym eval run {' '.join(words)}", check=False)

    evaluate(tmp_path / "whole")
    evaluate(tmp_path / "parts", "+standin.exit_after=2")
    with (tmp_path / "parts" / "rollouts.jsonl").open("a") as file:
        file.write('{"torn')
    evaluate(tmp_path / "parts")
    files = [tmp_path / folder / "rollouts_aggregate_metrics.json" for folder in ("whole", "parts")]
    whole, parts = (json.loads(file.read_text())[0]["key_metrics"] for file in files)
    assert whole == parts
    assert len((tmp_path / "parts" / "rollouts.jsonl").read_text().splitlines()) == 6


def test_up_repairs_a_node_that_is_down(cluster):
    cluster.run("scontrol update nodename=n4 state=down reason=test")
    cluster.script("up")
    deadline = time.monotonic() + 10
    while cluster.run("sinfo -h -n n4 -p debug -o %T").strip() not in ("idle", "mixed"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
