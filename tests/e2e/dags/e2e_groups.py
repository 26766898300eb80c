"""`gym_evals` and `@task.gym_eval`: several benchmarks of one config, one of which fails; results as assets."""

from datetime import datetime, timedelta

from airflow.sdk import DAG, task
from e2e_configs import CLUSTER, FOLDER, LONG_ENOUGH, command, config, rollouts

from airflow_gym_provider.assets import gym_asset
from airflow_gym_provider.operators.gym import GymEvalOperator
from airflow_gym_provider.task_groups import gym_evals

DEFAULTS = {"retries": 3, "retry_delay": timedelta(seconds=2), "ssh_conn_id": CLUSTER, "poll_interval": 5}

with DAG("e2e_group", default_args=DEFAULTS):
    several = config(
        fine=rollouts(4),
        broken=command(
            f"sleep {LONG_ENOUGH}", f"[ -e '{FOLDER}/gates/mended' ] || {{ echo keys: $GIVEN $HF; exit 3; }}"
        ),
        unwanted=command("exit 1"),
    )
    several["driver"]["env"] = {"GIVEN": "host:E2E_GIVEN", "HF": "host:HF_TOKEN"}
    environ = {"E2E_GIVEN": "{{ var.value.e2e_argument_secret }}", "HF_TOKEN": "{{ conn.e2e_hf.password }}"}

    @task
    def choose(settings):
        """A task's output as the config."""
        return settings

    gym_evals(choose(several), benchmarks=["*", "!unwanted"], environ=environ)

with DAG("e2e_dates", schedule="@daily", start_date=datetime(2025, 1, 1), catchup=False, default_args=DEFAULTS):
    gym_evals(
        config(
            fine=command(f"sleep {LONG_ENOUGH}"),
            broken=command(
                f"sleep {LONG_ENOUGH}", f"[ '{{{{ ds }}}}' != 2025-03-02 ] || [ -e '{FOLDER}/gates/dates' ]"
            ),
        )
    )

with DAG("e2e_group_refused", default_args=DEFAULTS):
    gym_evals(config(neverrun=rollouts(4)), benchmarks="never_run, x*", overrides=["@cluster.account=nobody"])

with DAG("e2e_announcing", default_args=DEFAULTS):
    gym_evals(config(announced=rollouts(3)))
    GymEvalOperator(task_id="known", config=config(known=rollouts(2)))

for benchmark in ("announced", "known"):
    with DAG(f"e2e_hears_{benchmark}", schedule=[gym_asset("slurm", benchmark)]):

        @task
        def hear(asset, triggering_asset_events):
            """What the events carry."""
            return [event.extra for event in triggering_asset_events[asset]]

        hear(gym_asset("slurm", benchmark))

with DAG("e2e_decorated", default_args=DEFAULTS):

    @task.gym_eval(config=config(decorated=rollouts(9, after=3, resumable={"max_retries": 1})))
    def decorated(limit, ti):
        """Leaves a line for every time that it is called."""
        with (FOLDER / f"decorated-{limit}").open("a") as calls:
            calls.write(f"try {ti.try_number}\n")
        return [f"@run.limit={limit}"]

    decorated.expand(limit=[4, 5])
