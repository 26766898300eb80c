"""Other ways to say and to do it: a config with Jinja, waiting in the worker, queueing all and a sensor, secrets."""

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param
from e2e_configs import CLUSTER, LONG_ENOUGH, command, command_at_gate, config, rollouts

from airflow_gym_provider.operators.gym import GymEvalOperator, GymSubmitOperator
from airflow_gym_provider.sensors.slurm import SlurmJobSensor

DEFAULTS = {"retry_delay": timedelta(seconds=2), "ssh_conn_id": CLUSTER, "poll_interval": 5}

with DAG("e2e_templated", default_args=DEFAULTS, params={"questions": Param(7, type="integer")}):
    GymEvalOperator(task_id="templated", config="templated.yaml")
    GymEvalOperator(
        task_id="absolute",
        config=str(Path(__file__).with_name("templated.yaml")),
        overrides=["_label=given"],
    )

with DAG("e2e_in_worker", default_args=DEFAULTS):
    stumbling = rollouts(5, after=3, resumable={"max_retries": 2})
    GymEvalOperator(task_id="stumbling", config=config(stumbling=stumbling), deferrable=False)

with DAG("e2e_submit", default_args=DEFAULTS):
    submit = GymSubmitOperator(task_id="submit", config=config(one=rollouts(4), two=rollouts(6)))
    SlurmJobSensor(task_id="deferred", jobs=submit.output, ssh_conn_id=CLUSTER, poll_interval=5)
    submit >> SlurmJobSensor(task_id="here", jobs="{{ ti.xcom_pull('submit') | tojson }}", deferrable=False)

with DAG("e2e_secret", default_args=DEFAULTS | {"ssh_conn_id": "gym_watched"}):
    secret = config(
        secret=command_at_gate(
            "secret",
            'printf %s "$HOSTED" | sha256sum',
            'printf %s "$E2E_FORWARDED_SECRET" | sha256sum',
            'printf %s "$GIVEN" | sha256sum',
        ),
        leaky=command('echo "the key is $HOSTED"', f"sleep {LONG_ENOUGH}", "exit 1"),
    )
    secret["driver"]["env"] = {"HOSTED": "host:E2E_HOST_SECRET", "GIVEN": "host:E2E_GIVEN"}
    secret["compute"]["slurm"]["forward_env"] = ["E2E_FORWARDED_SECRET"]
    given = {"E2E_GIVEN": "{{ var.value.e2e_argument_secret }}"}
    for benchmark in ("secret", "leaky"):
        GymEvalOperator(task_id=benchmark, benchmark=benchmark, config=secret, environ=given)
