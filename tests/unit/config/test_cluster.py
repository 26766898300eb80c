from __future__ import annotations

from typing import Any

import pytest

from airflow_gym_provider.config import SubmitConfigError, check_render_time

from .builders import config, loaded, pool, problems_of, vllm, warnings_of


@pytest.mark.parametrize(
    "name",
    [
        "job-name",
        "account",
        "time",
        "chdir",
        "partition",
        "nodes",
        "ntasks-per-node",
        "gpus-per-node",
        "array",
        "wrap",
        "job_name",
        "TIME",
        "part",
        "acc",
        "ntasks-per",
        "tasks-per-node",
        "arr",
        "wra",
        "test",
        "J",
        "n",
        "--qos",
        "-p",
        "a=b",
        "a b",
        "",
        "qos\n",
    ],
)
def test_directives_that_are_managed_or_malformed(name: str) -> None:
    for source, place in (
        (config(compute={"extra_args": {name: "x"}}), f"compute.cluster.extra_args.{name}"),
        (config(pools={"main": pool(extra_args={name: "x"})}), f"compute.cluster.node_pools.main.extra_args.{name}"),
    ):
        (where,) = problems_of(source)
        assert where in (place, repr(place))


@pytest.mark.parametrize(
    "name", ["comment", "qos", "gres", "gpus", "ntasks", "nodelist", "mem-per-cpu", "time-min", "requeue"]
)
def test_other_directives_are_free(name: str) -> None:
    assert loaded(config(compute={"extra_args": {name: "x"}})).cluster.extra_args == {name: "x"}


@pytest.mark.parametrize(("value", "text"), [("", ""), (5, "5"), ("it's #1", "it's #1"), ('{"a": 1}', '{"a": 1}')])
def test_directive_values_are_text(value: Any, text: str) -> None:
    assert loaded(config(compute={"extra_args": {"comment": value}})).cluster.extra_args == {"comment": text}


@pytest.mark.parametrize("value", [None, True, 1.5, "a\nb", "a\rb", "a\x00", " ", ["x"]])
def test_directive_values_that_no_line_can_carry(value: Any) -> None:
    assert list(problems_of(config(compute={"extra_args": {"comment": value}}))) == [
        "compute.cluster.extra_args.comment"
    ]


def test_a_pool_may_not_contradict_the_job() -> None:
    pools = {"main": pool(extra_args={"qos": "low", "comment": "x"})}
    problems = problems_of(config(pools=pools, compute={"extra_args": {"qos": "high", "comment": "x"}}))
    assert list(problems) == ["compute.cluster.node_pools.main.extra_args.qos"]
    assert "low" in str(problems) and "high" in str(problems)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("account", ""),
        ("account", None),
        ("hostname", ""),
        ("hostname", "-oProxyCommand=x"),
        ("hostname", "a b"),
        ("forward_env", "HF_TOKEN"),
        ("node_pools", [{"partition": "x"}]),
        ("node_pools", None),
        ("extra_args", None),
    ],
)
def test_a_wrong_field_is_refused_by_its_place(field: str, value: Any) -> None:
    problems = problems_of(config({}, compute={field: value}, policy=None))
    assert list(problems) == [f"compute.cluster.{field}"]


@pytest.mark.parametrize(
    ("field", "value"),
    [("nodes", 0), ("ntasks_per_node", 0), ("gpus_per_node", -1), ("partition", None), ("nodes", "2x")],
)
def test_sizes_of_pools(field: str, value: Any) -> None:
    problems = problems_of(config({}, {"main": {"partition": "p", field: value}}, policy=None))
    assert list(problems) == [f"compute.cluster.node_pools.main.{field}"]


@pytest.mark.parametrize("hostname", ["login.example.com", "user@login-1", "10.0.0.1", "[::1]", None])
def test_hosts(hostname: str | None) -> None:
    assert loaded(config(compute={"hostname": hostname})).cluster.hostname == hostname


@pytest.mark.parametrize("path", ["", "evals", "~/x", "/", "//", "/..", "/a:b", "/a,b", "/a\nb", None])
def test_the_output_path_is_absolute_and_can_be_mounted(path: Any) -> None:
    assert list(problems_of({**config(), "job": {"output_path": path}})) == ["job.output_path"]


@pytest.mark.parametrize("path", ["/lustre/my evals", "/scratch/me/", "/a'b"])
def test_the_output_path_may_hold_what_can_be_quoted(path: str) -> None:
    assert loaded({**config(), "job": {"output_path": path}}).job.output_path == path


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"export": "PATH"}, "'PATH' names neither ALL nor HF_TOKEN, OTHER"),
        ({"export": "NONE,X"}, "'NONE,X' names neither ALL nor HF_TOKEN, OTHER"),
        ({"export": "OTHER,PATH=/bin"}, "names neither ALL nor HF_TOKEN,"),
        ({"export": "nil"}, "nil keeps forward_env from reaching the job"),
        ({"export-file": "/x"}, "export-file: takes the job's environment from a file"),
        ({"export_file": "/x"}, "export_file: takes the job's environment from a file"),
        ({"export": "ALL"}, None),
        ({"export": "ALL,X=1"}, None),
        ({"export": "HF_TOKEN,OTHER=x"}, None),
        ({"exclusive": ""}, None),
    ],
)
def test_an_export_without_what_is_forwarded_is_warned_of(extra: dict[str, str], told: str | None) -> None:
    for_all = config(compute={"forward_env": ["HF_TOKEN", "OTHER"], "extra_args": extra})
    for_pool = config(compute={"forward_env": ["HF_TOKEN", "OTHER"]}, pools={"main": pool(extra_args=extra)})
    for source, where in ((for_all, "compute.cluster."), (for_pool, "compute.cluster.node_pools.main.")):
        found = warnings_of(source)
        assert len(found) == (told is not None)
        assert all(text.startswith(f"{where}extra_args.export") and str(told) in text for text in found)
    assert not warnings_of(config(compute={"extra_args": extra})), "nothing is forwarded"


def test_the_collectors_token_has_to_be_exported_too() -> None:
    otel = {"endpoint": "https://x", "service_name": "s", "token_env": "MY_TOKEN"}
    (told,) = warnings_of(config(compute={"extra_args": {"export": "PATH"}}, otel=otel))
    assert "names neither ALL nor MY_TOKEN" in told


def test_what_undoes_forwarding_or_wastes_nodes_is_warned_of() -> None:
    source = config(
        {"policy": vllm(node_pool="main")},
        {"main": pool(1, 1), "spare": pool(2, 1)},
        compute={"forward_env": ["CUDA_VISIBLE_DEVICES", "A"], "extra_args": {"export": "NONE"}, "walltime": "4:00:00"},
        benchmarks={"g": {"resumable": {"max_walltime": "1:00:00"}}},
    )
    found = warnings_of(source)
    for place in ("extra_args.export", "forward_env.0", "node_pools.spare", "g.resumable.max_walltime"):
        assert len([text for text in found if place in text]) == 1
    assert len(found) == 4
    assert not warnings_of(config())


def test_forwarding_cannot_steer_sbatch() -> None:
    problems = problems_of(config(compute={"forward_env": ["SBATCH_PARTITION", "SLURM_CLUSTERS"]}))
    assert list(problems) == ["compute.cluster.forward_env.0", "compute.cluster.forward_env.1"]


@pytest.mark.parametrize(
    ("job", "main", "named"),
    [
        ({}, {}, ()),
        ({"clusters": "c2, c3,c2"}, {}, ("c2", "c3")),
        ({}, {"cluster": "c2"}, ("c2",)),
        ({"clusters": "all"}, {}, ()),
        ({"clusters": "--x,a b"}, {}, ()),
    ],
)
def test_the_clusters_that_a_job_may_be_sent_to(job: Any, main: Any, named: tuple[str, ...]) -> None:
    found = loaded(config(pools={"main": pool(extra_args=main)}, compute={"extra_args": job}))
    assert found.cluster.named_clusters == named


def render_problems(source: dict[str, Any], environ: dict[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(SubmitConfigError) as refusal:
        check_render_time(loaded(source, environ=environ))
    return {problem.where: problem.what for problem in refusal.value.problems}


@pytest.mark.parametrize(
    ("first", "second", "fragments"),
    [
        (pool(), pool(partition="other"), ["partition", "batch", "other"]),
        (pool(), pool(ntasks_per_node=2), ["ntasks_per_node", "1", "2"]),
        (pool(1, 8), pool(), ["gpus_per_node", "8", "null"]),
        (pool(1, 0), pool(), ["gpus_per_node", "0", "null"]),
        (pool(extra_args={"gres": "x:8"}), pool(extra_args={"gres": "x:4"}), ["extra_args.gres", "x:8", "x:4"]),
    ],
)
def test_pools_of_one_job_agree_when_it_is_rendered(first: Any, second: Any, fragments: list[str]) -> None:
    what = render_problems(config({}, {"a": first, "b": second}, policy=None))["compute.cluster.node_pools"]
    assert all(fragment in what for fragment in fragments)


def test_pools_with_other_directives_agree() -> None:
    pools = {"a": pool(extra_args={"constraint": "x"}), "b": pool(3, extra_args={"reservation": "y"})}
    check_render_time(loaded(config(pools=pools)))


def test_a_collector_is_on_by_default_and_needs_its_settings_when_rendered() -> None:
    source = config()
    del source["otel"]
    assert loaded(source).otel.enabled
    assert list(render_problems(source)) == [
        "otel.endpoint",
        "otel.service_name",
        "otel.token_env",
        "otel.gym_telemetry",
    ]


def test_every_setting_of_the_collector_counts() -> None:
    otel = {"endpoint": "https://x:4318/v1", "service_name": "s", "token_env": "MY_TOKEN"}
    driver = {"gym_install": {"ref": "v1"}}
    check_render_time(loaded(config(otel=otel, driver=driver), environ={"MY_TOKEN": "t"}))
    check_render_time(loaded(config(otel={**otel, "gym_telemetry": False}), environ={"MY_TOKEN": "t"}))
    assert "MY_TOKEN" in render_problems(config(otel=otel, driver=driver), {"MY_TOKEN": ""})["otel.token_env"]
    assert "gym_install" in render_problems(config(otel=otel), {"MY_TOKEN": "t"})["otel.gym_telemetry"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("endpoint", "localhost:4318"),
        ("endpoint", ""),
        ("service_name", ""),
        ("token_env", "A-B"),
        ("scrape_interval_seconds", 0),
        ("health_check_timeout_seconds", -1),
        ("gpu_metrics_port", 70000),
        ("enabled", "perhaps"),
        ("endpont", "x"),
    ],
)
def test_a_collector_that_is_off_is_checked_as_strictly(field: str, value: Any) -> None:
    assert list(problems_of(config(otel={"enabled": False, field: value}))) == [f"otel.{field}"]
