"""Config files as an operator reads them: from beside the DAG, with their Jinja rendered."""

import base64
import json
import logging
import sys
import time
import traceback
from types import SimpleNamespace

import pytest
import yaml
from airflow.sdk import DAG
from airflow.sdk._shared.secrets_masker import _secrets_masker
from airflow.sdk.exceptions import AirflowFailException
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

from airflow_gym_provider.config import load_submit_config
from airflow_gym_provider.exceptions import ChainStopped
from airflow_gym_provider.jobscript.overrides import override_tokens
from airflow_gym_provider.jobscript.run import effective_run
from airflow_gym_provider.operators import _config
from airflow_gym_provider.operators._config import hidden, load_config
from airflow_gym_provider.operators._failure import reason_left
from airflow_gym_provider.operators._submit import job_files
from airflow_gym_provider.operators.gym import GymEvalOperator
from airflow_gym_provider.operators.retry import ENDLESS, ChainRetryPolicy

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
    def read(question="'what?'", dag=None, environ=None, **more):
        path = tmp_path / "submit.yaml"
        path.write_text(TEXT.format(question=question))
        return load_config(str(path), [], environ or {}, context | more | ({"dag": dag} if dag else {}), LOG)

    return read


def as_gym_reads(config):
    """What becomes of `run` in the job: arguments, each read by gym's own Hydra, whose environment holds secrets."""
    parser = OverridesParser.create()
    given = [parser.parse_override(token) for token in override_tokens(config.driver.benchmarks["gpqa"].run, "run")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARY", "s3cret-of-the-job")
        values = OmegaConf.create({found.key_or_group: found.value() for found in given})
        return OmegaConf.to_container(values, resolve=True)


@pytest.mark.parametrize("text", ["x; touch pwned", "$(id)", "`id`", "'; id; '", "x | sh", "x\\\nid"])
def test_what_somebody_fills_in_is_no_line_for_a_shell(context, load, tmp_path, text):
    def command(written, text):
        path = tmp_path / "own.yaml"
        path.write_text(TEXT.format(question="x").replace("run: {question: x}", f"command: {written}"))
        found = load_config(str(path), [], {}, context | {"params": {"text": text}}, LOG)
        return found.driver.benchmarks["gpqa"].command

    for written in ("'run {{ params.text }}'", "{{ params.text | tojson }}", "'run \"{{ params.text ~ '' }}\"'"):
        with pytest.raises(AirflowFailException, match=r"gpqa\.command: is for a shell.*\$NAME|several lines"):
            command(written, text)
    assert command("'run {{ params.text }}'", "/ckpt/7") == "run /ckpt/7"
    found = as_gym_reads(load("{command: {{ params.text | tojson }}}", params={"text": text}))
    assert found == {"question.command": text}, "what gym is given is no shell's"


@pytest.mark.parametrize("text", ["${oc.env:CANARY}", "a \\${oc.env:CANARY} b"])
def test_what_stands_for_a_run_or_a_model_is_no_interpolation_for_gym_either(context, submit_config, text):
    given = [f"@run.question={text}", f"@policy.model={text}"]
    config = load_config(submit_config, given, {}, context, LOG)
    run = effective_run(config, "gpqa", "/out/gpqa")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CANARY", "s3cret-of-the-job")
        read = OmegaConf.to_container(OmegaConf.create(dict(run)), resolve=True)
    assert (read["question"], read["policy_model_name"], config.services["policy"].model) == (text, text, text)
    again = load_submit_config(config.resolved(), environ={})
    assert effective_run(again, "gpqa", "/out/gpqa") == run


BY_REFERENCE = """
services:
  policy: {{type: vllm, model: {model}, container: c, served_model_name: "it is ${{services.policy.model}}"}}
compute: {{cluster: {{type: slurm, account: eval, node_pools: {{main: {{partition: debug, gpus_per_node: 1}}}}}}}}
driver:
  container: c
  policy_model: policy
  env: {{NAME: "lit:${{services.policy.model}}"}}
  benchmarks:
    gpqa: {{run: {{question: "is it ${{services.policy.model}}", again: "${{.question}}", own: '\\${{again}}'}}}}
job: {{output_path: /out}}
otel: {{enabled: false}}
"""


@pytest.mark.parametrize("text", ["${oc.env:CANARY}", "a \\${oc.env:CANARY}", "a\\\\${question} ${", "{\\$"])
@pytest.mark.parametrize("way", ["file", "mapping", "role", "environ"])
def test_what_is_filled_in_is_no_interpolation_wherever_a_reference_takes_it(context, tmp_path, text, way):
    written = {"file": "'{{ params.text }}'", "mapping": "'{{ params.text }}'", "environ": '"${oc.env:TEXT}"'}
    path = tmp_path / "submit.yaml"
    path.write_text(BY_REFERENCE.format(model=written.get(way, "m")))
    context |= {"params": {"text": text}}
    task = GymEvalOperator(
        task_id="e",
        config=yaml.safe_load(path.read_text()) if way == "mapping" else str(path),
        overrides=["@policy.model={{ params.text }}"] if way == "role" else [],
    )
    task.render_template_fields(context)
    environ = {"TEXT": text, "CANARY": CANARY}
    config = load_config(task.given("config"), task.given("overrides"), environ, context, LOG)
    assert config.services["policy"].model == text
    assert config.services["policy"].served_model_name == f"it is {text}"
    assert config.driver.env["NAME"].value == text
    read = as_gym_reads(config)
    assert read == dict.fromkeys(("question", "again", "own"), f"is it {text}"), "and its author's is one"
    again = load_submit_config(config.resolved(), environ=environ)
    assert effective_run(again, "gpqa", "/out/gpqa") == effective_run(config, "gpqa", "/out/gpqa")


@pytest.mark.parametrize("text", ["${oc.env:CANARY}", "a \\${oc.env:CANARY}", "\\\\${oc.env:CANARY} ${", "${services}"])
def test_what_jinja_brings_in_is_no_interpolation(load, text):
    found = load("'{{ params.text }}'", params={"text": text}, environ={"CANARY": "s3cret"})
    assert as_gym_reads(found) == {"question": text}


@pytest.mark.parametrize("text", ["a\nb: c", "a\r}, x: 'y'", "a\u2028b", "a\n\\${oc.env:CANARY}\n'\"<&"])
def test_a_param_of_several_lines_adds_no_line_to_a_file(load, text):
    for place in ({"params": {"text": text}}, {"dag_run": SimpleNamespace(conf={"deep": [{"text": text}]})}):
        given = "params.text" if "params" in place else "dag_run.conf.deep[0].text"
        with pytest.raises(AirflowFailException, match="several lines; write"):
            load(f"'{{{{ {given} }}}}'", **place)
        found = load(f"{{{{ {given} | tojson }}}}", **place, environ={"CANARY": "s3cret"})
        assert as_gym_reads(found) == {"question": text}


CANARY = "s3cret-canary"
STRUCTURE = [
    'm, env: {L: "host:CANARY"}, z: y',
    'm", env: {L: "host:CANARY"}, z: "y',
    "m', env: {L: 'host:CANARY'}, z: 'y",
    ", env: {L: host:CANARY}, z:",
    "m}, env: {L: host:CANARY}, z: {a: b",
    r"\x24{oc.env:CANARY}",
    "a: b #",
    "&a *a !!python/object:x [",
    "- a",
    "a\\",
]
PLACES = [
    "{{ params.text }}",
    "'{{ params.text }}'",
    '"{{ params.text }}"',
    "{{ params.text | trim }}",
    "{{ params.text ~ '' }}",
    "{{ params.text | tojson }}",
    "{% set x %}{{ params.text }}{% endset %}{{ x }}",
    "{% macro m(x) %}'{{ x }}'{% endmacro %}{{ m(params.text) }}",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", STRUCTURE)
def test_whatever_a_param_holds_is_text_and_writes_no_config(load, place, text):
    for written, run in ((place, {"question": text}), (f"m, all: [{place}, {place}]", None)):
        found = load(written, params={"text": text}, environ={"CANARY": CANARY})
        expected = run or {"question": "m", "all": [text, text]}
        assert as_gym_reads(found) == expected
        assert not found.secret_values() and not found.driver.env


@pytest.mark.parametrize("place", ["'{{ params.text | tojson }}'", '"{{ params.text | tojson }}"'])
@pytest.mark.parametrize("text", STRUCTURE)
def test_what_is_quoted_twice_is_an_error_or_text(load, place, text):
    try:
        found = load(place, params={"text": text}, environ={"CANARY": CANARY})
    except AirflowFailException as error:
        assert CANARY not in str(error)
    else:
        assert list(found.driver.benchmarks["gpqa"].run) == ["question"] and not found.secret_values()


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("'{{ params.a }}{{ params.b }}'", "${oc.env:CANARY}"),
        ("'costs ${{ params.b }}'", "costs ${oc.env:CANARY}"),
        ("'costs {{ params.a }}{oc.env:CANARY}'", "costs ${oc.env:CANARY}"),
        ("'{{ params.c }}${oc.env:OTHER}'", "\\word"),
        ("'{{ params.d }}'", "${oc.env:CANARY}"),
    ],
)
def test_an_interpolation_is_one_only_where_its_author_wrote_all_of_it(load, written, text):
    params = {"a": "$", "b": "{oc.env:CANARY}", "c": "\\", "d": "\ue0f4\ue0f5oc.env:CANARY}\ue0f7"}
    found = load(written, params=params, environ={"CANARY": CANARY, "OTHER": "word"})
    assert as_gym_reads(found) == {"question": text}


def test_words_numbers_and_lists_that_a_template_brings_in_are_what_they_look_like(load):
    params = {"n": 5, "s": "5", "yes": "true", "none": None, "many": ["a", "b: c"], "map": {"k": {"x, y": 1.5}}}
    params |= {"low": "-1.5e-3", "minus": "-2"}
    expected = {"n": 5, "s": 5, "yes": True, "none": "None", "many": ["a", "b: c"], "low": -1.5e-3, "minus": -2}
    for name, value in expected.items():
        assert load(f"{{{{ params.{name} }}}}", params=params).driver.benchmarks["gpqa"].run == {"question": value}
    for name in ("n", "none", "many", "map"):
        found = load(f"{{{{ params.{name} | tojson }}}}", params=params)
        assert found.driver.benchmarks["gpqa"].run == {"question": params[name]}


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


@pytest.fixture
def masker():
    """Airflow's masker, which hides nothing yet."""
    masker = _secrets_masker()
    masker.reset_masker()
    return masker


def test_a_secret_that_came_with_a_template_is_not_in_the_config_that_is_stored(load, masker, context):
    def password() -> str:
        masker.add_mask("canary-5f1e")  # as Airflow does with a connection that is asked for
        return "canary-5f1e"

    context["password"] = password
    config = load("'{{ password() }}'")
    assert config.driver.benchmarks["gpqa"].run == {"question": "canary-5f1e"}
    shown = yaml.safe_load(config.resolved_yaml())
    assert shown["driver"]["benchmarks"]["gpqa"]["run"] == {"question": "***"}
    assert hidden("the job says canary-5f1e", config) == "the job says ***"


def test_a_job_script_lists_what_came_with_a_template_to_be_hidden_in_its_followed_log(load, masker):
    masker.add_mask("canary-5f1e")
    config = load("'https://me:canary-5f1e@example.org/x'")
    assert config.secret_values() == {"canary-5f1e"}
    files = job_files(config, "gpqa", "/out/run/gpqa", config.secret_values())
    assert "".join(f"\\x{byte:02x}" for byte in b"canary-5f1e") in files[0].text.splitlines()[-1]


SECRET = 'canary-1\nit\'s "canary-2"\n'
TREE = {
    "services": {},
    "compute": {"cluster": {"type": "slurm", "account": "eval", "node_pools": {"main": {"partition": "debug"}}}},
    "driver": {"benchmarks": {"gpqa": {}}, "env": {"A": "host:A", "B": "host:B", "C": "host:C", "D": "host:D"}},
    "job": {"output_path": "/out"},
    "otel": {"enabled": False},
}
ENVIRON = {"A": SECRET, "B": "1", "C": "true", "D": ""}


def test_the_masker_knows_a_secret_in_every_shape_and_nothing_that_all_logs_hold(masker, context):
    load_config(TREE, [], ENVIRON, context, LOG)
    said = [SECRET, "canary-1", json.dumps(SECRET), repr(SECRET), base64.b64encode(SECRET.encode()).decode()]
    assert "canary" not in str([masker.redact(text) for text in said])
    assert base64.b64encode(SECRET.encode()).decode()[:20] not in str([masker.redact(text) for text in said])
    plain = "true, 1 of 10 is not false; 'debug'"
    assert masker.redact(plain) == plain


def test_a_masker_that_is_another_one_inside_is_told_all_the_same(monkeypatch):
    told = []
    monkeypatch.setattr(_config, "mask_secret", told.extend)
    monkeypatch.setitem(sys.modules, "airflow.sdk._shared.secrets_masker", None)
    _config.mask(["canary-1b9d"])
    assert "canary-1b9d" in told


def test_masking_a_key_of_many_lines_takes_a_moment_in_both_processes(masker, monkeypatch):
    told = []
    monkeypatch.setattr(_config, "mask_secret", told.extend)
    lines = [base64.b64encode(bytes([n % 256, n // 256]) * 24).decode() + str(n) for n in range(300)]
    key = "\n".join(["-----BEGIN KEY-----", *lines, "-----END KEY-----", ""])
    begun = time.process_time()
    _config.mask([key, "canary-and-more", "canary"])
    supervisor = type(masker)()
    supervisor.add_mask(told)
    assert time.process_time() - begun < 5  # it was minutes
    texts = [key, *lines, json.dumps(key), base64.b64encode(key.encode()).decode(), "canary-and-more"]
    assert not [line for line in lines if line in str([masker.redact(text) for text in texts])]
    assert masker.redact(texts[-1]) == "***"
    assert supervisor.redact(f"{lines[0]} canary") == "*** ***"


def test_a_fault_of_ours_is_not_told_with_the_secrets_that_were_there(masker, context, monkeypatch):
    def broken(source, overrides, environ, **_):
        raise KeyError(environ["HF_TOKEN"])

    monkeypatch.setattr(_config, "load_submit_config", broken)
    with pytest.raises(KeyError) as fault:
        load_config(TREE, [], {"HF_TOKEN": "canary-3c7d", "HOME": "/home/me"}, context, LOG)
    assert masker.redact(repr(fault.value)) == "KeyError('***')"
    assert masker.redact("/home/me") == "/home/me"


def test_values_of_environ_are_masked_before_anything_is_done_with_them(masker, context):
    GymEvalOperator(task_id="e", config="x.yaml", environ={"A": SECRET, "OUT": "/out/runs"})._rendered_environ(context)
    assert "canary" not in str(masker.redact(f"{SECRET!r} and canary-1"))
    assert masker.redact("in /out/runs") == "in /out/runs"


def test_what_is_stored_of_a_failure_is_without_secrets(masker, context):
    masker.add_mask("canary-8a4f")
    error = ChainStopped("sbatch: error: canary-8a4f is not allowed")
    error.__cause__, error.__context__ = KeyError("canary-8a4f"), OSError(2, "no canary-8a4f")
    with pytest.raises(ChainStopped) as raised, reason_left(context):
        raise error
    told = "".join(traceback.format_exception(raised.value))
    assert "sbatch: error: *** is not allowed" in told and "canary-8a4f" not in told.replace('"canary-8a4f', "")
    decision = ChainRetryPolicy().evaluate(error, 1, ENDLESS, context)
    told = "sbatch: error: *** is not allowed"
    assert (context["ti"].xcoms["gym_failure"]["reason"], decision.reason) == (told, told)


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
