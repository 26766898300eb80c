"""Config files as an operator reads them: from beside the DAG, with their Jinja rendered."""

import logging

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider.operators._config import hidden, load_config

LOG = logging.getLogger(__name__)
TEXT = """
services: {{}}
compute: {{cluster: {{type: slurm, account: eval, node_pools: {{main: {{partition: debug}}}}}}}}
driver: {{benchmarks: {{gpqa: {{run: {{question: {question}}}}}}}}}
job: {{output_path: '/out/{{{{ ds }}}}'}}
otel: {{enabled: false}}
"""


@pytest.fixture
def load(context, tmp_path):
    def read(question="'what?'", dag=None):
        path = tmp_path / "submit.yaml"
        path.write_text(TEXT.format(question=question))
        return load_config(str(path), [], {}, context | ({"dag": dag} if dag else {}), LOG)

    return read


def test_jinja_in_a_file_is_rendered(load):
    assert load().job.output_path == "/out/2026-01-02"


def test_a_dag_with_native_rendering_gets_text_all_the_same(load):
    assert load(dag=DAG("native", render_template_as_native_obj=True)).job.output_path == "/out/2026-01-02"


def test_braces_meant_as_text_can_be_kept(load):
    config = load("'{% raw %}{{ question }}{% endraw %}'")
    assert config.driver.benchmarks["gpqa"].run == {"question": "{{ question }}"}


def test_braces_that_mean_nothing_are_an_error_with_its_cure(load):
    with pytest.raises(AirflowFailException, match=r"submit\.yaml: .*'question' is undefined.*\{% raw %\}"):
        load("'{{ question }}'")


def test_a_jobs_own_words_are_shown_without_the_configs_secrets(context):
    tree = {
        "services": {},
        "compute": {"cluster": {"type": "slurm", "account": "eval", "node_pools": {"main": {"partition": "debug"}}}},
        "driver": {"benchmarks": {"gpqa": {}}, "env": {"A": "host:A", "AB": "host:AB", "SHORT": "host:SHORT"}},
        "job": {"output_path": "/out"},
        "otel": {"enabled": False},
    }
    config = load_config(tree, [], {"A": "canary", "AB": "canary-and-more", "SHORT": "1"}, context, LOG)
    assert hidden("with canary-and-more, canary, 1 of 10", config) == "with ***, ***, 1 of 10"
