"""A config into which templates bring what somebody has filled in, and what becomes of it."""

import logging
from types import SimpleNamespace

import pytest
import yaml
from airflow.sdk import DAG
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from airflow_gym_provider.jobscript.overrides import override_tokens
from airflow_gym_provider.operators._config import load_config
from airflow_gym_provider.operators.gym import GymEvalOperator

LOG = logging.getLogger(__name__)
CANARY = "s3cret-of-the-worker"
IN_THE_JOB = "s3cret-of-the-job"
READS = "${oc.env:CANARY}"
BASE = """
services: {policy: {type: vllm, model: m, container: c}}
compute: {cluster: {type: slurm, account: eval, node_pools: {main: {partition: debug, gpus_per_node: 1}}}}
driver: {container: c, policy_model: policy, benchmarks: {gpqa: {run: {question: x}}}}
job: {output_path: /out}
otel: {enabled: false}
"""


def merged(tree, other):
    if not (isinstance(tree, dict) and isinstance(other, dict)):
        return other
    found = tree | {key: merged(tree.get(key), value) for key, value in other.items()}
    return {key: value for key, value in found.items() if value is not None}


@pytest.fixture
def load(context, tmp_path):
    """A config, given as a mapping or as the same in a file, with params and overrides that are templates."""

    def load(more, params, overrides=(), way="file", environ=None, native=False, text=None):
        tree = merged(yaml.safe_load(BASE), more)
        path = tmp_path / "submit.yaml"
        path.write_text(text or yaml.safe_dump(tree, default_style="'"))
        with DAG("d", schedule=None, render_template_as_native_obj=native) as dag:
            task = GymEvalOperator(
                task_id="e", config=tree if way == "mapping" else str(path), overrides=list(overrides)
            )
        given = context | {"params": params, "dag": dag, "dag_run": SimpleNamespace(conf=params)}
        task.render_template_fields(given | {"expanded_ti_count": None})
        environ = {"CANARY": CANARY} | (environ or {})
        return load_config(task.given("config"), task.given("overrides"), environ, given, LOG)

    return load


def as_gym_reads(config):
    """What becomes of `run` in the job, where gym's own Hydra reads it with the job's environment."""
    parser = OverridesParser.create()
    given = [parser.parse_override(token) for token in override_tokens(config.driver.benchmarks["gpqa"].run, "run")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARY", IN_THE_JOB)
        tree = OmegaConf.create({})
        for found in given:
            OmegaConf.update(tree, str(found.key_or_group), found.value(), force_add=True)
        return OmegaConf.to_container(tree, resolve=True)


def run(**values):
    return {"driver": {"benchmarks": {"gpqa": {"run": values}}}}


def command(text):
    return {"driver": {"benchmarks": {"gpqa": {"run": None, "command": text}}}}
