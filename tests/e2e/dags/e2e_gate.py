"""A gate after two evaluations: one of gym's with rewards per task, one of a harness of its own."""

from datetime import timedelta

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Param
from e2e_configs import CLUSTER, LONG_ENOUGH, command, config, rollouts

from airflow_gym_provider.operators.gate import GymGateOperator
from airflow_gym_provider.operators.gym import GymEvalOperator

DEFAULTS = {"retry_delay": timedelta(seconds=2), "ssh_conn_id": CLUSTER}
PARAMS = {
    "right": Param(30, type="integer"),
    "questions": Param(40, type="integer"),
    "score": Param(0.9, type="number"),
}

with DAG("e2e_gate", default_args=DEFAULTS, params=PARAMS):
    quiz = rollouts(40)
    quiz["run"]["standin"]["right_tasks"] = 0
    quiz["run"]["num_repeats"] = 2
    own = command(
        f"sleep {LONG_ENOUGH}",
        "mkdir -p artifacts",
        """echo '{"by": {"lang": {{ params.score }}}, "name": "x"}' > artifacts/results.json""",
    )
    evaluated = GymEvalOperator.partial(
        task_id="eval",
        config=config(quiz=quiz, own=own),
        overrides=[
            "driver.benchmarks.quiz.run.standin.right_tasks={{ params.right }}",
            "driver.benchmarks.quiz.run.limit={{ params.questions }}",
        ],
        poll_interval=5,
    ).expand(benchmark=["quiz", "own"])
    gate = GymGateOperator(
        task_id="gate", candidate=evaluated.output, benchmark_metrics={"own": {"by.lang": {"max_drop": 0.05}}}
    )
    evaluated >> gate >> EmptyOperator(task_id="publish")
