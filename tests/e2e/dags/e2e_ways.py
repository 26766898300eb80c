"""Other ways to say and to do it: a config with Jinja, waiting in the worker, queueing all and a sensor, secrets."""

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import AirflowFailException
from e2e_configs import CLUSTER, FOLDER, LONG_ENOUGH, command, command_at_gate, config, rollouts

from airflow_gym_provider.notifications.gym import GymNotifier
from airflow_gym_provider.operators.gym import GymEvalOperator, GymSubmitOperator
from airflow_gym_provider.sensors.slurm import SlurmJobSensor

LEAKS = (
    'echo "the key is $HOSTED"',
    'for key in "$HOSTED" "$GIVEN" "$E2E_FORWARDED_SECRET"; do',
    'printf \'%s\\n%q\\n\' "$key" "$key"',
    'printf %s "$key" | base64 --wrap=0; echo',
    'printf %s "me:$key" | base64 --wrap=0; echo',
    "python3 -c 'import json, sys, urllib.parse as url; it = sys.stdin.read(); "
    'print(json.dumps(it), repr(it), url.quote(it), url.quote_plus(it))\' <<<"$key"',
    'set -x; : "$key"; set +x',
    "done",
)


class Broken(GymEvalOperator):
    """With a fault in it, which meets the secret in a local variable and says it."""

    def _arguments(self, context):
        arguments = super()._arguments(context)
        secret = arguments.environ["E2E_GIVEN"]
        try:
            raise ValueError(secret)
        except ValueError as fault:
            raise AirflowFailException(f"broken with {secret}") from fault


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

with DAG("e2e_by_hand", default_args=DEFAULTS):
    GymEvalOperator(task_id="stumbling", config=config(stumbling=stumbling))

with DAG("e2e_submit", default_args=DEFAULTS):
    submit = GymSubmitOperator(task_id="submit", config=config(one=rollouts(4), two=rollouts(6)))
    SlurmJobSensor(task_id="deferred", jobs=submit.output, ssh_conn_id=CLUSTER, poll_interval=5)
    submit >> SlurmJobSensor(task_id="here", jobs="{{ ti.xcom_pull('submit') | tojson }}", deferrable=False)

with DAG("e2e_secret", default_args=DEFAULTS | {"ssh_conn_id": "gym_watched"}):
    secret = config(
        secret=command_at_gate(
            "secret",
            f"ps -ewwo user,pid,ppid,args >>'{FOLDER}/ps.txt'",
            'printf %s "$HOSTED" | sha256sum',
            'printf %s "$E2E_FORWARDED_SECRET" | sha256sum',
            'printf %s "$GIVEN" | sha256sum',
        ),
        leaky=command(*LEAKS, f"sleep {LONG_ENOUGH}", "exit 76"),
        refused=command("true"),
    )
    secret["driver"]["env"] = {"HOSTED": "host:E2E_HOST_SECRET", "GIVEN": "host:E2E_GIVEN"}
    secret["compute"]["slurm"]["forward_env"] = ["E2E_FORWARDED_SECRET"]
    given = {"E2E_GIVEN": "{{ var.value.e2e_argument_secret }}"}
    GymEvalOperator(task_id="secret", benchmark="secret", config=secret, environ=given)
    tell = GymNotifier(webhook_conn_id="e2e_hook")
    GymEvalOperator(
        task_id="leaky", benchmark="leaky", config=secret, environ=given, follow_log=True, on_failure_callback=tell
    )
    nowhere = ["compute.slurm.node_pools.main.partition=nowhere"]
    GymEvalOperator(task_id="refused", benchmark="refused", config=secret, environ=given, overrides=nowhere)
    # An entry without its prefix, and one that is not there.
    unfit = ["driver.env.HOSTED='${oc.env:E2E_HOST_SECRET}'", "driver.env.GIVEN=host:E2E_NOT_THERE"]
    GymEvalOperator(task_id="wrong", benchmark="secret", config=secret, environ=given, overrides=unfit)
    GymEvalOperator(task_id="no_login", benchmark="secret", config=secret, environ=given, ssh_conn_id="e2e_no_login")
    Broken(task_id="broken", benchmark="secret", config=secret, environ=given)
