"""Who fills in a form writes values: no interpolation, no config and no line for a shell, whichever way they take."""

import copy
import re

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException
from fakes.filled_in import BASE, CANARY, LOG, READS, as_gym_reads, command, merged, run
from omegaconf import OmegaConf

from airflow_gym_provider.config import load_submit_config
from airflow_gym_provider.operators._config import load_config
from airflow_gym_provider.operators.gym import GymEvalOperator

SHELL = "a; touch pwned"
LINES = [
    (command("run {{ params.x }}"), ()),
    (command("run ${_x}") | {"_x": "{{ params.x }}"}, ()),
    (command("run ${services.policy.model}"), ["@policy.model={{ params.x }}"]),
    (command("run"), ["driver.benchmarks.gpqa.command='run {{ params.x }}'"]),
    (command("run ${_x}") | {"_x": "y"}, ["_x='{{ params.x }}'"]),
    ({"services": {"policy": {"extra_args": "--name {{ params.x }}"}}}, ()),
    ({"services": {"policy": {"pre_command": "get ${services.policy.model}", "model": "{{ params.x }}"}}}, ()),
    ({"services": {"policy": {"extra_args": "--name ${services.policy.model}"}}}, ["@policy.model={{ params.x }}"]),
]


@pytest.mark.parametrize("way", ["file", "mapping"])
@pytest.mark.parametrize("text", [SHELL, "$(id)", "`id`", "a b --trust-remote-code", "--evil", "x\\", "'", "a\tb"])
@pytest.mark.parametrize(("more", "overrides"), LINES)
def test_no_line_for_a_shell_holds_what_was_filled_in(load, more, overrides, text, way):
    with pytest.raises(AirflowFailException, match=r"(command|extra_args): is for a shell .*\$NAME"):
        load(more, {"x": text}, overrides, way)


@pytest.mark.parametrize("way", ["file", "mapping"])
@pytest.mark.parametrize(("more", "overrides"), LINES)
def test_words_may_stand_in_a_line_for_a_shell(load, more, overrides, way):
    found = load(more, {"x": "/ckpt/step-7"}, overrides, way)
    service, benchmark = found.services["policy"], found.driver.benchmarks["gpqa"]
    assert "/ckpt/step-7" in f"{benchmark.command} {service.extra_args} {service.pre_command}"


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "$\\{oc.env:CANARY\\}",
        READS,
        "a, evil: 1",
        "a', Y: 'host:CANARY",
        "{a: b}",
        "[a]",
        "choice(a,b)",
        "a,b",
        '"',
        "\\",
    ],
)
@pytest.mark.parametrize(
    ("override", "made"),
    [
        ("{{ params.x }}", lambda text: text),
        ("'{{ params.x }}'", lambda text: text),
        ('"{{ params.x }}"', lambda text: text),
        ("[{{ params.x }}, '{{ params.x }}']", lambda text: [text, text]),
        ("{split: {{ params.x }}}", lambda text: {"split": text}),
        ("{{ [params.x] }}", lambda text: [text]),
        ("{{ {'split': [params.x]} }}", lambda text: {"split": [text]}),
    ],
)
def test_in_an_override_it_is_text_and_no_grammar(load, override, made, text, native):
    found = load({}, {"x": text}, ["+driver.benchmarks.gpqa.run.given=" + override], native=native)
    assert as_gym_reads(found) == {"question": "x", "given": made(text)}
    assert CANARY not in found.secret_values() and not found.driver.env


@pytest.mark.parametrize("text", ["host:CANARY", "runtime:HF_TOKEN"])
def test_an_entry_of_env_reads_no_variable_that_was_filled_in(load, text):
    for more, overrides in (
        ({"driver": {"env": {"X": "{{ params.x }}"}}}, ()),
        ({"services": {"policy": {"env": {"X": "{{ params.x }}"}}}}, ()),
        ({"driver": {"env": {"X": "${_x}"}}, "_x": "{{ params.x }}"}, ()),
        ({}, ["+driver.env.X={{ params.x }}"]),
        ({}, ["+driver.env={X: '{{ params.x }}'}"]),
        ({}, ["@policy.env.X={{ params.x }}"]),
    ):
        with pytest.raises(AirflowFailException, match=r'env\.X: begins with .* write "lit:'):
            load(more, {"x": text}, overrides)
    assert load({"driver": {"env": {"X": "lit:{{ params.x }}"}}}, {"x": text}).driver.env["X"].value == text


@pytest.mark.parametrize("way", ["file", "mapping"])
@pytest.mark.parametrize(
    ("written", "text"),
    [
        ({"q": "${_a}${_b}"}, READS),
        ({"q": "costs $${_b}"}, "costs " + READS),
        ({"q": "${_a}{oc.env:CANARY}"}, READS),
        ({"q": "${_c}\\${again}", "again": "yes"}, "\\yes"),
        ({"q": "${_e}"}, READS),
        ({"q": ["${_e}", {"deep": "${_e}"}]}, [READS, {"deep": READS}]),
        ({"q": "${oc.env:DOLLAR}{oc.env:CANARY}"}, READS),
        ({"q": "${oc.env:WHOLE}"}, READS),
        ({"q": "${oc.select:_e}"}, READS),
    ],
)
def test_it_stays_text_wherever_references_take_it(load, written, text, way):
    scratch = {"_a": "{{ params.a }}", "_b": "{{ params.b }}", "_c": "{{ params.c }}"}
    scratch |= {"_d": "{{ params.d }}", "_e": "{{ params.e }}"}
    params = {"a": "$", "b": "{oc.env:CANARY}", "c": "\\", "d": "$\\{oc.env:CANARY\\}", "e": READS}
    found = load(run(**written) | scratch, params, way=way, environ={"DOLLAR": "$", "WHOLE": READS})
    assert as_gym_reads(found)["q"] == text
    with pytest.raises(AirflowFailException, match=r"run\.q: "):
        load(run(q="${oc.decode:${_d}}") | scratch, params, way=way)


FORM = {"a": READS, "b": ", evil: 1, z: [a]", "l": [READS, "b: c"], "m": "costs ${", "d": {READS: "x: y"}}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("{{ params.l | tojson }}", [READS, "b: c"]),
        ("[{{ params.a | tojson }}, {{ params.b | tojson }}]", [READS, FORM["b"]]),
        ("[{{ params.l | map('tojson') | join(', ') }}]", [READS, "b: c"]),
        ("[{{ params.l | join(', ') }}]", [READS, "b: c"]),
        ("'{{ params.l | join(', ') }}'", f"{READS}, b: c"),
        ("[{{ params.l | join(params.b) }}]", [f"{READS}{FORM['b']}b: c"]),
        ("[{% for x in params.l %}{{ x }}{{ ', ' if not loop.last }}{% endfor %}]", [READS, "b: c"]),
        ("{{ params.nothing | default('[a, b]') }}", ["a", "b"]),
        ("{{ '[a, %s]' | format(params.b) }}", f"[a, {FORM['b']}]"),
        ("{{ '[a, {}]'.format(params.b) }}", f"[a, {FORM['b']}]"),
        ("{% set p %}[{}]{% endset %}{{ p.format(params.b) }}", f"[{FORM['b']}]"),
        ("{% set p %}[{}]{% endset %}{{ p.format_map(params) }}", None),
        ("{% set p | trim %} [{{ params.a }}, b] {% endset %}{{ p }}", [READS, "b"]),
        ("{% set p | upper %}{{ params.m }}{% endset %}{{ p }}", None),
        ("{{ 'a: ' ~ params.m }}", "a: costs ${"),
        ("{{ params.a | tojson ~ ', ' ~ params.b | tojson }}", f'"{READS}", "{FORM["b"]}"'),
        ("{% set p %}/ckpt/{{ ds }}{% endset %}{{ p ~ '/' ~ params.b }}", f"/ckpt/2026-01-02/{FORM['b']}"),
        ("{% set p %}it is MODEL{% endset %}{{ p | replace('MODEL', params.a) }}", f"it is {READS}"),
        ("{% set p %}it is {{ params.m }}{% endset %}{{ p ~ params.a }}", f"it is costs ${{{READS}"),
        ("{{ (params.a | tojson)[1:-1] }}", READS),
        ("{% macro m(x) %}'{{ x }}'{% endmacro %}{{ m(params.a) }}", READS),
        ("{% macro m(x) %}'{{ x }}'{% endmacro %}{{ m(ds) ~ params.b }}", f"'2026-01-02'{FORM['b']}"),
        ("{% macro m(x) %}{q: '{{ x }}'}{% endmacro %}{{ m(params.b) }}", {"q": FORM["b"]}),
        ("{% set p %} [{{ params.a }}, b] {% endset %}{{ p | trim }}", [READS, "b"]),
        ("{% set p %}{{ params.a }}{% endset %}{% set q %}[{{ p }}]{% endset %}{{ q }}", [READS]),
        ("{% call m() %}{{ params.b }}{% endcall %}{% macro m() %}'{{ caller() }}'{% endmacro %}", None),
        ("{% macro m() %}'{{ caller() }}'{% endmacro %}{% call m() %}{{ params.b }}{% endcall %}", FORM["b"]),
        ("'{{ params.a | e }}'", READS),
        ("{{ params.a | safe }}", READS),
        ("{{ params.b | upper }}", FORM["b"].upper()),
        ("{{ [params.a, params.b] }}", [READS, FORM["b"]]),
    ],
)
def test_however_jinja_puts_it_together(load, written, value):
    text = BASE.replace("question: x", f"question: {written}")
    if value is None:
        with pytest.raises(AirflowFailException, match=r"is undefined|was changed on its way|(Index|Key|Value)Error"):
            load({}, FORM, text=text)
        return
    assert as_gym_reads(load({}, FORM, text=text)) == {"question": value}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("written", "made"),
    [
        ("{{ params.l | tojson }}", ["a, b", READS]),
        ("[{{ params.l | join(', ') }}]", ["a, b", READS]),
        ("[{{ params.l | map('tojson') | join(',') }}]", ["a, b", READS]),
        ("[{% for x in params.l %}{{ x }}{{ ',' if not loop.last }}{% endfor %}]", ["a, b", READS]),
        ("{% set p %}{{ params.a }}, x{% endset %}'{{ p }}'", "a, b, x"),
        ("{% set p %}{{ params.a }}, x{% endset %}'{{ p | replace('x', params.a) }}'", "a, b, a, b"),
        ("{% macro m(x) %}[{{ x }}, c]{% endmacro %}{{ m(params.a) }}", ["a, b", "c"]),
        ("{{ '[1, 2]' if params.a else '' }}", [1, 2]),
        ("'{{ 'is {}'.format(params.a) }}'", "is a, b"),
    ],
)
def test_jinja_in_an_override_keeps_its_authors_grammar(load, written, made, native):
    params = {"l": ["a, b", READS], "a": "a, b"}
    found = load({}, params, ["+driver.benchmarks.gpqa.run.given=" + written], native=native)
    assert as_gym_reads(found) == {"question": "x", "given": made}


@pytest.mark.parametrize(
    "written",
    [
        "+driver.benchmarks.gpqa.run.given={% filter upper %}{{ params.a }}{% endfilter %}",
        "+driver.benchmarks.gpqa.run.given={% set p %}{{ params.a }}{% endset %}{{ p | upper }}",
        "@run.given={% set p %}{{ params.a }}{% endset %}{{ p[:20] }}",
        "+driver.benchmarks.gpqa.run.{{ params.a }}=1",
        "{{ params.whole }}",
    ],
)
def test_what_cannot_stand_in_an_override_is_told(load, written):
    with pytest.raises(AirflowFailException) as caught:
        load({}, {"a": "a(2, b", "whole": "driver.benchmarks.gpqa.run.question=" + READS}, [written])
    assert re.search("changed on (its|the) way|is written (in its key )?by a template", str(caught.value))
    assert not re.search("_[0-9a-f]{16}_", str(caught.value))


def test_an_override_that_a_template_writes_as_a_whole_is_its(load):
    params = {"a": "+driver.benchmarks.gpqa.run.given=[a, 'b c']", "b": "@run.role=a$b${c}"}
    found = load({}, params, ["{{ params.a }}", "{{ params.b }}"])
    assert as_gym_reads(found) == {"question": "x", "given": ["a", "b c"], "role": "a$b${c}"}


@pytest.mark.parametrize("sign", ["'", '"'])
@pytest.mark.parametrize("way", ["file", "mapping"])
def test_no_quotation_in_an_interpolation_is_left(load, sign, way):
    paths = {"_paths": {"small": "s.jsonl"}}
    written = "${oc.select:'_paths.{{ params.x }}'}".replace("'", sign)
    params = {"x": f"no{sign},{sign}; touch pwned #"}
    assert (
        load(command(f"harness {written}") | paths, params, way=way).driver.benchmarks["gpqa"].command == "harness None"
    )
    env = {"driver": {"env": {"X": f"lit:{written}"}}}
    assert load(env | paths, {"x": f"no{sign},{sign}host:CANARY"}, way=way).driver.env["X"].value == "None"
    params = {"x": "small"}
    assert (
        load(command(f"harness {written}") | paths, params, way=way).driver.benchmarks["gpqa"].command
        == "harness s.jsonl"
    )


def test_a_list_that_a_resolver_makes_has_no_marks(load):
    values = {"q": "${oc.decode:${oc.env:LIST}}", "r": "${oc.decode:${oc.env:MAP}}"}
    environ = {"LIST": '["a", "$HOME", "\'"]', "MAP": "{k: '$x'}"}
    found = load(run(**values), {}, environ=environ)
    assert as_gym_reads(found) == {"question": "x", "q": ["a", "$HOME", "'"], "r": {"k": "$x"}}


@pytest.mark.parametrize("text", ["--enable-lora", "--a 1"])
def test_options_of_the_author_may_depend_on_a_form(load, text):
    for written in (f'{{{{ "{text}" if params.x else "" }}}}', f"{{% if params.x %}}{text}{{% endif %}}"):
        for way in ("file", "mapping"):
            found = load({"services": {"policy": {"extra_args": f"--b {written}"}}}, {"x": True}, way=way)
            assert found.services["policy"].extra_args == f"--b {text}"
    for words in ("a==1.2", "50%", "1,2,3"):
        found = load({"services": {"policy": {"extra_args": "--b {{ params.x }}"}}}, {"x": words})
        assert found.services["policy"].extra_args == f"--b {words}"


def test_a_value_that_is_set_after_rendering_counts_and_a_copy_shares_nothing(context):
    task = GymEvalOperator(task_id="e", config="a.yaml", overrides=["@run.q={{ params.x }}"])
    first, second = copy.copy(task), copy.copy(task)
    first.render_template_fields(context | {"params": {"x": "a, b"}})
    assert first.overrides == ["@run.q=a, b"] and second.given("overrides") == ["@run.q={{ params.x }}"]
    first.overrides = [*first.overrides, "@run.extra=5"]
    assert first.given("overrides") == ["@run.q=a, b", "@run.extra=5"]
    assert task.given("overrides") == ["@run.q={{ params.x }}"]


@pytest.mark.parametrize("change", ["upper", "replace('2', '7')", "truncate(9, True, '', 0)", "reverse"])
def test_a_filter_that_would_damage_it_is_told(load, change):
    for use in (f"{{{{ p | {change} }}}}", f"{{% filter {change} %}}{{{{ p }}}}{{% endfilter %}}"):
        text = BASE.replace("question: x", f"question: {{% set p %}}{{{{ params.a }}}} 2{{% endset %}}{use}")
        with pytest.raises(AirflowFailException, match="was changed on its way"):
            load({}, FORM, text=text)


@pytest.mark.parametrize("key", [READS, "x}" + READS, "a}"])
@pytest.mark.parametrize("written", ["${oc.dict.keys:_d}", "${oc.dict.values:_d}"])
def test_keys_make_no_interpolation_either(load, written, key):
    text = BASE.replace("question: x", f'question: "{written}"') + "_d: {{ params.d | tojson }}\n"
    with pytest.raises(AirflowFailException, match=r"_d: a template brings in a key with one of \$"):
        load({}, {"d": {key: "v"}}, text=text)
    for native, overrides in ((True, ()), (False, ["+driver.benchmarks.gpqa.run.d={{ params.d }}"])):
        with pytest.raises(AirflowFailException, match=r"d: a template brings in a key|cannot be used"):
            load(run(d="{{ params.d }}" if native else "x"), {"d": {key: "v"}}, overrides, "mapping", native=native)
    assert as_gym_reads(load({}, {"d": {"a b, c": "v"}}, text=text.replace(f'"{written}"', "x"))) == {"question": "x"}


def test_no_resolver_sees_an_environment_that_was_not_given(monkeypatch):
    monkeypatch.setenv("OF_THE_WORKER", CANARY)
    tree = merged(yaml.safe_load(BASE), run(q="${oc.decode:${_t}}") | {"_t": r"\${oc.env:OF_THE_WORKER}"})
    with pytest.raises(ValueError, match="OF_THE_WORKER is not set"):
        load_submit_config(tree, environ={})
    assert OmegaConf.create({"a": "${oc.env:OF_THE_WORKER}"}).a == CANARY, "others' configs read as ever"
    assert OmegaConf.create({"a": "${oc.env:NOT_THERE,b}"}).a == "b"


def test_the_policys_host_is_a_host(load):
    for text in (READS, "a${oc.env:CANARY}", "a b"):
        with pytest.raises(AirflowFailException, match=r"driver\.policy_host"):
            load({"driver": {"policy_host": "{{ params.x }}"}}, {"x": text})


def test_a_resolved_config_refers_to_nothing_that_was_filled_in(load):
    for name in ("CANARY", "HOMEDIR"):
        found = load(
            {"driver": {"env": {"X": "lit:{{ params.x }} ${oc.env:HOMEDIR}"}}},
            {"x": f"\ue0f0{name}\ue0f1"},
            environ={"HOMEDIR": "/home/me"},
        )
        again = load_submit_config(found.resolved(), environ={"CANARY": CANARY, "HOMEDIR": "/home/me"})
        assert again.driver.env["X"].value == found.driver.env["X"].value == f"lit:\ue0f0{name}\ue0f1 /home/me"[4:]


def test_what_is_stored_and_told_has_no_marks(context):
    """Airflow's masker would not know a secret with other characters in it."""
    password = "Tr0ub4$dor&3{x"
    tree = merged(yaml.safe_load(BASE), {"driver": {"env": {"DB": "lit:{{ params.x }}@${_host} ${"}}, "_host": "h"})
    task = GymEvalOperator(task_id="e", config=tree, overrides=["+driver.benchmarks.gpqa.run.db='{{ params.x }}'"])
    context |= {"params": {"x": password}}
    task.render_template_fields(context)
    assert task.config["driver"]["env"]["DB"] == f"lit:{password}@${{_host}} ${{"
    assert task.overrides == [f"+driver.benchmarks.gpqa.run.db='{password}'"]
    with pytest.raises(AirflowFailException) as caught:
        load_config(task.given("config"), [], {}, context, LOG)
    assert not any("\ue0f0" <= sign <= "\ue0ff" for sign in str(caught.value))
    tree["driver"]["env"] = {}
    tree["driver"]["benchmarks"]["gpqa"]["run"] = {"q": "${_m.${oc.env:MY_TOKEN}}"}
    with pytest.raises(AirflowFailException) as caught:
        load_config(tree, [], {"MY_TOKEN": "pa55${w0rd-long-1"}, context, LOG)
    assert "w0rd-long" not in str(caught.value)


def test_a_form_picks_no_file_outside_of_the_configs_folder(load, tmp_path):
    (tmp_path.parent / "c.yaml").write_text("cluster: {account: another-file}")
    (tmp_path / "compute").mkdir()
    (tmp_path / "compute" / "c.yaml").write_text("cluster: {account: ours}")
    text = "defaults: [{compute: '{{ params.x }}'}, _self_]\n" + BASE.replace("account: eval, ", "")
    assert load({}, {"x": "c"}, text=text).cluster.account == "ours"
    for name in ("../../c", "../compute/c", "x/../c", "/etc/passwd"):
        with pytest.raises(AirflowFailException, match="defaults"):
            load({}, {"x": name}, text=text)
