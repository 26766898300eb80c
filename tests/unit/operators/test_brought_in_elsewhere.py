"""What somebody fills in is text on the less trodden roads as well: blocks, names, objects, the environment, XComs."""

import time
from pathlib import PurePosixPath

import pytest
import yaml
from airflow.sdk import DAG
from airflow.sdk.definitions._internal.mixins import ResolveMixin
from airflow.sdk.exceptions import AirflowFailException
from fakes.filled_in import BASE, CANARY, LOG, READS, as_gym_reads, command, merged, run

from airflow_gym_provider.jobscript.overrides import override_tokens
from airflow_gym_provider.operators._config import load_config, whole_environ
from airflow_gym_provider.operators.gym import GymEvalOperator

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


@pytest.fixture
def fragments(tmp_path):
    """Beside the config, and outside of its folder."""
    for name in ("compute", "variants"):
        (tmp_path / name).mkdir()
    (tmp_path / "compute" / "c.yaml").write_text("cluster: {account: ours}")
    (tmp_path / "variants" / "small.yaml").write_text("# @package _global_\ndriver: {env: {S: 'lit:small'}}")
    (tmp_path.parent / "outside.yaml").write_text("driver: {env: {X: 'host:CANARY'}}  # {{ 1 / 0 }}")
    return BASE.replace("account: eval, ", "")


@pytest.mark.parametrize("text", [READS, "${oc.env:P}", "c@driver", "a b, c:d", "{c}"])
def test_a_form_names_a_fragment_and_no_more(load, fragments, text):
    for defaults in ("[{compute: '{{ params.x }}'}, _self_]", "[{'{{ params.x }}': c}, _self_]"):
        with pytest.raises(AirflowFailException, match="into the defaults list, which is no name of a frag") as caught:
            load({}, {"x": text}, text=f"defaults: {defaults}\n{fragments}", environ={"P": "c"})
        assert CANARY not in str(caught.value)
    with pytest.raises(AirflowFailException, match=r"override 'compute': '.*' is no name of a fragment"):
        load({}, {"x": text}, ["compute={{ params.x }}"], text=f"defaults: [{{compute: c}}, _self_]\n{fragments}")


def test_a_fragment_is_neither_moved_nor_read_from_elsewhere(load, fragments, tmp_path):
    given = "defaults: [{compute: c}, '%s', _self_]\n" + fragments
    with pytest.raises(AirflowFailException, match="no name of a fragment"):
        load({}, {"x": "small@driver.env"}, text=given.replace("%s", "variants/{{ params.x }}"))
    outside = str(tmp_path.parent / "outside")
    for name in (outside, "/" + outside, "/" + outside + ".yaml", "../outside"):
        for written in ("{{ params.x }}", name):
            with pytest.raises(AirflowFailException, match="defaults: ") as caught:
                load({}, {"x": name}, text=given.replace("%s", written))
            assert "ZeroDivision" not in str(caught.value), "it is not even read"
    for written in ("variants/{{ params.x }}", "/variants/{{ params.x }}"):
        found = load({}, {"x": "small"}, text=given.replace("%s", written))
        assert found.driver.env["S"].value == "small"
    given = "defaults: [{compute: '${oc.env:P}'}, _self_]\n" + fragments
    assert load({}, {}, text=given, environ={"P": "c"}).cluster.account == "ours", "as the author has written it"


@pytest.mark.parametrize("text", ["~root/.ssh/id_rsa", "a ~/x"])
def test_no_home_is_found_in_a_line_for_a_shell(load, text):
    for way in ("file", "mapping"):
        with pytest.raises(AirflowFailException, match=NO_SHELL_WORD):
            load(command("cat {{ params.x }}"), {"x": text}, way=way)
        assert load(run(q="{{ params.x }}"), {"x": text}, way=way).driver.benchmarks["gpqa"].run == {
            "question": "x",
            "q": text,
        }


PARTS = [
    ("{{ params.a }}{{ params.b }}", "hos", "t:CANARY"),
    ("{{ params.a }}:{{ params.b }}", "host", "CANARY"),
    ("{{ params.a }}st:{{ params.b }}", "ho", "CANARY"),
    ("h{{ params.a }}t:{{ params.b }}", "os", "CANARY"),
    ("runtime{{ params.a }}{{ params.b }}", ":", "CANARY"),
    ("{{ params.a }}{{ params.b }}", "", "host:CANARY"),
    ("r{{ params.a }}{{ params.b }}", "unt", "ime:CANARY"),
]


@pytest.mark.parametrize(("written", "a", "b"), PARTS)
def test_no_prefix_is_put_together(load, written, a, b):
    params = {"a": a, "b": b}
    for way in ("file", "mapping"):
        for more in (
            {"driver": {"env": {"X": written}}},
            {"driver": {"env": {"X": "${_x}"}}, "_x": written},
            {"driver": {"env": {"X": "${_a}${_b}"}}, "_a": written[:-14], "_b": written[-14:]},
        ):
            with pytest.raises(AirflowFailException, match=r"env\.X: begins with (host|runtime): by what"):
                load(more, params, way=way)
    with pytest.raises(AirflowFailException, match=r"env\.X: begins with (host|runtime): by what"):
        load({}, params, [f"+driver.env.X='{written}'"])


def test_the_author_may_have_a_form_name_a_variable(load):
    for name in ("TOKEN", "time", "h", "MY_HOST"):
        for way in ("file", "mapping"):
            more = {"driver": {"env": {"X": "host:{{ params.x }}", "Y": "lit:{{ params.x }}:{{ params.x }}"}}}
            found = load(more, {"x": name}, way=way, environ={name: "v"}).driver.env
            assert (found["X"].value, found["Y"].value) == ("v", f"{name}:{name}")
        key = ["+driver.benchmarks.gpqa.run.{{ params.x }}={{ params.x }}"]
        assert load({}, {"x": name}, key).driver.benchmarks["gpqa"].run == {"question": "x", name: name}


@pytest.mark.parametrize("written", ["{{ params.x }}", "{{ '' ~ params.x }}"])
@pytest.mark.parametrize("text", ["+driver.env.X=host:CANARY", "+driver.env.X='host:CANARY'", "@cluster.x=host:CANARY"])
def test_no_override_of_a_form_reads_a_variable(load, written, text):
    with pytest.raises(AirflowFailException, match=r"with \$, a backslash or host: in it|begins with host: by"):
        load({}, {"x": text}, [written])
    text = "@run.url=http://localhost:8000/v1"
    assert load({}, {"x": text}, ["{{ params.x }}"]).driver.benchmarks["gpqa"].run["url"] == text[9:]


@pytest.fixture
def of_variables(context):
    """A config that reads a variable which a template of `environ` wrote, and one that is its author's."""

    def load(more, text):
        tree = merged(yaml.safe_load(BASE), more)
        task = GymEvalOperator(task_id="e", config=tree, environ={"X": "{{ params.x }}", "MINE": text})
        given = context | {"params": {"x": text}, "expanded_ti_count": None}
        task.render_template_fields(given)
        environ = whole_environ(task._rendered_environ(given)) | {"CANARY": CANARY}
        return load_config(task.given("config"), [], environ, given, LOG)

    return load


@pytest.mark.parametrize(
    ("more", "text", "told"),
    [
        (command("run ${oc.env:X}"), "a; touch pwned", "command: is for a shell"),
        (command("run ${_x}") | {"_x": "${oc.env:X}"}, "--evil", "command: is for a shell"),
        ({"driver": {"env": {"Y": "${oc.env:X}"}}}, "host:CANARY", r"env\.Y: begins with host: by"),
        ({"driver": {"env": {"Y": "ho${oc.env:X}"}}}, "st:CANARY", r"env\.Y: begins with host: by"),
        (run(q="${oc.decode:${oc.env:X}}"), "{a: 1, evil: [2]}", r"run\.q: "),
    ],
)
def test_a_variable_that_a_template_wrote_is_text(of_variables, more, text, told):
    with pytest.raises(AirflowFailException, match=told):
        of_variables(more, text)
    of_variables(yaml.safe_load(yaml.safe_dump(more).replace("env:X", "env:MINE")), text)
    found = of_variables(run(q="${oc.env:X}", r="${oc.env:MINE}") | {"driver": {"env": {"Y": "lit:${oc.env:X}"}}}, text)
    assert found.driver.env["Y"].value == text and text in found.secret_values()


class _Output(ResolveMixin):
    """What another task returns, as `task.output` stands for it."""

    def __init__(self, value):
        self.value = value

    def iter_references(self):
        return ()

    def resolve(self, context):
        return self.value


@pytest.fixture
def of_outputs(context):
    def load(config, overrides=()):
        task = GymEvalOperator(task_id="e", config=config, overrides=overrides)
        given = context | {"params": {}, "expanded_ti_count": None}
        task.render_template_fields(given)
        return load_config(task.given("config"), task.given("overrides"), {"CANARY": CANARY}, given, LOG)

    return load


def test_the_output_of_a_task_within_a_mapping_is_text(of_outputs):
    base = yaml.safe_load(BASE)
    found = of_outputs(merged(base, run(q=_Output(READS), r=[_Output({"a": [READS]})])))
    assert as_gym_reads(found) == {"question": "x", "q": READS, "r": [{"a": [READS]}]}
    for more, told in (
        (command(_Output("run; touch pwned")), "command: is for a shell"),
        ({"driver": {"env": {"X": _Output("host:CANARY")}}}, r"env\.X: begins with host: by"),
    ):
        for config in (merged(base, more), [base, merged(base, more)]):
            with pytest.raises(AirflowFailException, match=told):
                of_outputs(config)


def test_a_whole_config_and_all_overrides_may_be_the_output_of_a_task(of_outputs):
    base = yaml.safe_load(BASE)
    whole = merged(base, {"driver": {"env": {"X": "host:CANARY"}}})
    for config in (_Output(whole), [base, _Output(whole)]):
        assert of_outputs(config, _Output(["@run.q=1"])).driver.env["X"].value == CANARY
    found = of_outputs(base, _Output(["+driver.env.X=host:CANARY", "+driver.benchmarks.gpqa.run.q=[a, b]"]))
    assert found.driver.env["X"].value == CANARY and found.driver.benchmarks["gpqa"].run["q"] == ["a", "b"]


def test_an_output_among_overrides_is_as_a_template_there(of_outputs):
    base = yaml.safe_load(BASE)
    found = of_outputs(base, ["@run.r=1", _Output("+driver.benchmarks.gpqa.run.q=[a, 'b c']")])
    assert found.driver.benchmarks["gpqa"].run == {"question": "x", "r": 1, "q": ["a", "b c"]}
    for text in ("+driver.benchmarks.gpqa.run.q=" + READS, "+driver.env.X=host:CANARY"):
        with pytest.raises(AirflowFailException, match=r"with \$, a backslash or host: in it"):
            of_outputs(base, [_Output(text)])


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("{p: {{ params.l | join(', ') }}}", None),
        ("[{{ params.l | join(', ') }}]", ["a", "evil:1"]),
        ("{{ params.d }}", {"a:b": "c:d"}),
        ("{{ params.d['a:b'] }}", "c:d"),
    ],
)
def test_no_colon_makes_an_entry_in_an_override(load, written, value):
    override = "+driver.benchmarks.gpqa.run.q=" + written
    params = {"l": ["a", "evil:1"], "d": {"a:b": "c:d"}}
    if value is None:
        with pytest.raises(AirflowFailException, match="is not an override in Hydra's grammar"):
            load({}, params, [override])
        return
    assert load({}, params, [override]).driver.benchmarks["gpqa"].run["q"] == value


def test_a_run_of_backslashes_takes_no_time(load):
    text = "\\" * 100_000
    start = time.process_time()
    found = load(run(q="{{ params.x }}"), {"x": text + "x"}, way="mapping")
    override_tokens(found.driver.benchmarks["gpqa"].run, "run")
    assert found.driver.benchmarks["gpqa"].run["q"] == text + "x"
    assert time.process_time() - start < 20


OBJECTS = {"l": ["a; b", READS], "d": {"a": READS, "b": [{"c": "x: y"}]}, "p": PurePosixPath("a" + READS)}
OBJECTS |= {"s": READS.encode(), "n": [PurePosixPath("a" + READS), 3, None, True]}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("{{ params.l }}", OBJECTS["l"]),
        ("{{ params.d }}", OBJECTS["d"]),
        ("{{ params.d | tojson }}", OBJECTS["d"]),
        ("{% if params.l %}{{ params.l }}{% endif %}", OBJECTS["l"]),
        ("{% set p %}{{ params.l }}{% endset %}{{ p }}", OBJECTS["l"]),
        ("{% macro m(x) %}{{ x }}{% endmacro %}{{ m(params.d) }}", OBJECTS["d"]),
        ("{{ params.n }}", ["a" + READS, 3, None, True]),
        ("use {{ params.l }}", f"use {OBJECTS['l']}"),
        ("{{ params.l }}{{ params.d }}", f"{OBJECTS['l']}{OBJECTS['d']}"),
        ("use {% set p %}{{ params.l }}{% endset %}{{ p }}", f"use {OBJECTS['l']}"),
        ("use {{ params.d | tojson }}", f'use {{"a": "{READS}", "b": [{{"c": "x: y"}}]}}'),
        ("use {{ params.d.values() }}", f"use {OBJECTS['d'].values()}"),
        ("{{ params.d.values() }}", str(OBJECTS["d"].values())),
        ("{{ params.p }}", "a" + READS),
        ("{{ params.s }}", f"b'{READS}'"),
        ("x {{ params.s }}", f"x b'{READS}'"),
    ],
)
def test_native_objects_are_structure_alone_and_text_within_a_text(load, written, value):
    found = load(run(q=written), OBJECTS, way="mapping", native=True)
    assert as_gym_reads(found) == {"question": "x", "q": value}


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize(
    "written",
    [
        'run "{{ params.l }}"',
        "run '{{ params.l | tojson }}'",
        "run {{ params.d.items() }}",
        "run '{{ [params.l] | join(',') }}'",
        "run {{ params.p }}",
        "{{ params.p }}",
    ],
)
def test_no_object_gets_into_a_line_for_a_shell(load, written, native):
    params = {"l": ["`touch pwned`"], "d": {"a": "; touch pwned ;"}, "p": PurePosixPath("a;touch pwned")}
    with pytest.raises(AirflowFailException, match=NO_SHELL_WORD):
        load(command(written), params, way="mapping", native=native)


@pytest.mark.parametrize("native", [False, True])
def test_a_secret_in_an_object_is_stored_as_the_masker_knows_it(context, native):
    secret = "Tr0ub4$dor&3{x"
    with DAG("d", schedule=None, render_template_as_native_obj=native) as dag:
        task = GymEvalOperator(task_id="e", config={"env": {"DB": "lit:{{ params.x }}", "Q": "{{ params.x }}"}})
    task.render_template_fields(context | {"params": {"x": {"password": secret}}, "dag": dag})
    assert task.config["env"]["DB"] == f"lit:{ {'password': secret} }"
    assert task.config["env"]["Q"] == ({"password": secret} if native else str({"password": secret}))


@pytest.mark.parametrize("way", [str, lambda path: [path], lambda path: ("base.yaml", path)])
@pytest.mark.parametrize("name", ["../evil", "a/../../evil", ".."])
def test_no_form_leads_a_configs_path_out_of_its_folder(context, way, name):
    task = GymEvalOperator(
        task_id="e", config=way("conf/{{ params.x }}.yaml" if name != ".." else "conf/{{ params.x }}/a.yaml")
    )
    with pytest.raises(AirflowFailException, match=r"a template brings '\.\.' into its path"):
        task.render_template_fields(context | {"params": {"x": name}})


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        ("conf/{{ params.x }}.yaml", "small/a..b", "conf/small/a..b.yaml"),
        ("../conf/{{ params.x }}.yaml", "small", "../conf/small.yaml"),
        ("{{ params.x }}", "../conf/small.yaml", "../conf/small.yaml"),
    ],
)
def test_what_the_author_writes_of_a_path_is_free(context, path, value, found):
    task = GymEvalOperator(task_id="e", config=path)
    task.render_template_fields(context | {"params": {"x": value}})
    assert task.config == found
