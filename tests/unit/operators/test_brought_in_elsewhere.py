"""What somebody fills in is text on the less trodden roads as well: blocks, names, objects, the environment, XComs."""

import pytest
import yaml
from airflow.sdk.exceptions import AirflowFailException
from fakes.filled_in import BASE, READS, as_gym_reads, command, merged, run

NO_SHELL_WORD = r"(command|extra_args): is for a shell .*\$NAME"


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    ("written", "text"),
    [
        ('{% filter replace("MODEL", params.x) %}it is MODEL{% endfilter %}', "it is {}"),
        ('{% filter trim | replace("MODEL", params.x) %} it is MODEL {% endfilter %}', "it is {}"),
        ("{% filter default(params.x, true) %}{% endfilter %}", "{}"),
        ('it is {% call "{}".format(params.x) %}{% endcall %}', "it is {}"),
        ("{% macro m() %}{% filter trim %}{{ params.x }}{% endfilter %}{% endmacro %}it is {{ m() }}", "it is {}"),
    ],
)
def test_what_a_filter_block_or_a_call_gives_is_a_value(load, written, text, native):
    for x in (READS, "x}, command: touch pwned; id, zz: {q: x", "q', r: '${oc.env:CANARY}"):
        in_file = load({}, {"x": x}, text=BASE.replace("question: x", f"question: {written}"), native=native)
        in_mapping = load(run(question=written), {"x": x}, way="mapping", native=native)
        in_override = load({}, {"x": x}, ["driver.benchmarks.gpqa.run.question=" + written], native=native)
        for found in (in_file, in_mapping, in_override):
            assert as_gym_reads(found) == {"question": text.format(x)}
    for way in ("file", "mapping"):
        with pytest.raises(AirflowFailException, match=NO_SHELL_WORD):
            load(command(written), {"x": "$(touch pwned); id"}, way=way, native=native)


def test_a_filter_block_that_only_trims_is_its_authors(load):
    written = "{% filter trim %} [{{ params.a }}, b] {% endfilter %}"
    found = load({}, {"a": READS}, text=BASE.replace("question: x", f"question: {written}"))
    assert as_gym_reads(found) == {"question": [READS, "b"]}


@pytest.mark.parametrize("way", ["file", "mapping"])
@pytest.mark.parametrize("name", ["run", "prepare"])
def test_no_name_opens_a_place_to_what_was_filled_in(load, name, way):
    service = {"type": "vllm", "model": "m", "container": "c"}
    of_a_service = {"driver": {"policy_model": name}, "services": {"policy": None, name: service}}
    of_a_benchmark = {"driver": {"benchmarks": {"gpqa": None, name: {"command": "run {{ params.x }}"}}}}
    for more in (of_a_benchmark, merged(of_a_service, {"services": {name: {"pre_command": "get {{ params.x }}"}}})):
        with pytest.raises(AirflowFailException, match="command: is for a shell"):
            load(more, {"x": "a; touch pwned"}, way=way)
    with pytest.raises(AirflowFailException, match=r"env\.K: begins with host:"):
        load(
            merged(of_a_service, {"services": {name: {"env": {"K": "{{ params.x }}"}}}}), {"x": "host:CANARY"}, way=way
        )
    found = load(
        {"driver": {"benchmarks": {"gpqa": None, name: {name: {"q": "{{ params.x }}"}}}}}, {"x": READS}, way=way
    )
    assert getattr(found.driver.benchmarks[name], name) == {"q": "\\" + READS}, "gym itself reads that once more"


def test_a_benchmark_that_a_form_names_is_as_safe(load):
    tree = yaml.safe_load(BASE)
    tree["driver"]["benchmarks"] = {"{{ params.name }}": {"command": "run {{ params.x }}"}}
    for name in ("gpqa", "run", "prepare"):
        with pytest.raises(AirflowFailException, match="command: is for a shell"):
            load({}, {"name": name, "x": "a; touch pwned"}, text=yaml.safe_dump(tree, default_style="'"))
