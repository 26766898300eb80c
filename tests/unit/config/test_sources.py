from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from .builders import BASE, config, loaded, problems_of

Write = Callable[..., Path]
RUN = "services:" + BASE.split("services:")[1].split("compute:")[0] + "driver:" + BASE.split("driver:")[1]


def cluster(account: str) -> str:
    entry = f"{{type: slurm, account: {account}, node_pools: {{main: {{partition: p}}}}}}"
    return f"# @package _global_\ncompute: {{cluster: {entry}}}\n"


@pytest.fixture
def folder(write: Write, tmp_path: Path) -> Path:
    for name in ("hsg", "eos"):
        write(cluster(name), f"cluster/{name}.yaml")
    write("defaults:\n  - cluster: hsg\n  - _self_\n" + RUN, "run.yaml")
    write(RUN, "own.yaml")
    return tmp_path


def test_later_files_win_and_mappings_merge(write: Write) -> None:
    base = write(BASE)
    own = write("driver: {benchmarks: {gsm8k: {}}, mounts: ['/a']}\njob: {output_path: /mine}\n", "own.yaml")
    last = {"driver": {"mounts": ["/b"]}, "compute": {"cluster": {"account": "other"}}}
    found = loaded([base, str(own), last])
    assert list(found.driver.benchmarks) == ["gpqa", "gsm8k"]
    assert (found.job.output_path, found.driver.mounts, found.cluster.account) == ("/mine", ["/b"], "other")
    assert found.cluster.node_pools["main"].partition == "batch"


def test_scratch_keys_of_one_file_serve_another(write: Write) -> None:
    fragment = write("_cluster: {account: shared}\n" + BASE, "cluster.yaml")
    own = {"compute": {"cluster": {"account": "${_cluster.account}"}}}
    assert loaded([fragment, own]).cluster.account == "shared"


def test_every_unreadable_file_is_named(write: Write, tmp_path: Path) -> None:
    problems = problems_of([tmp_path / "a.yaml", write("a: [", "b.yaml"), write(BASE)])
    assert len(problems) == 2


def test_an_omegaconf_mapping_keeps_its_interpolations() -> None:
    source = OmegaConf.create({**config(), "_account": "x", "job": {"output_path": "/runs/${_account}"}})
    assert loaded(source).job.output_path == "/runs/x"


def test_a_mapping_may_hold_paths_tuples_and_numbers() -> None:
    source = config(compute={"forward_env": ("A",)}, benchmarks={2024: {"run": {1: (1, 2)}}})
    found = loaded({**source, "job": {"output_path": Path("/runs")}})
    assert (found.job.output_path, found.cluster.forward_env) == ("/runs", ["A"])
    assert found.driver.benchmarks["2024"].run == {"1": [1, 2]}


def test_the_source_is_left_as_it_was() -> None:
    source = config()
    before = repr(source)
    loaded(source, ["services.policy.model=x"])
    assert repr(source) == before


def test_a_defaults_list_brings_in_a_fragment(folder: Path) -> None:
    assert loaded(folder / "run.yaml").cluster.account == "hsg"


def test_an_override_picks_another_fragment_and_values_come_after(folder: Path) -> None:
    assert loaded(folder / "run.yaml", ["cluster=eos"]).cluster.account == "eos"
    assert loaded(folder / "run.yaml", ["compute.cluster.account=z", "cluster=eos"]).cluster.account == "z"
    assert loaded(folder / "own.yaml", ["+cluster=eos"]).cluster.account == "eos"
    assert list(problems_of(folder / "run.yaml", ["~cluster"])) == ["compute"]


def test_what_stands_after_self_wins(folder: Path, write: Write) -> None:
    own = "compute: {cluster: {account: mine}}\n"
    assert loaded(write("defaults: [cluster: hsg, _self_]\n" + own + RUN, "a.yaml")).cluster.account == "mine"
    assert loaded(write("defaults: [cluster: hsg]\n" + own + RUN, "b.yaml")).cluster.account == "mine"
    assert loaded(write("defaults: [_self_, cluster: hsg]\n" + own + RUN, "c.yaml")).cluster.account == "hsg"


def test_a_fragment_without_a_package_goes_under_its_group(folder: Path, write: Write) -> None:
    write("policy: {type: vllm, container: from-fragment, model: m}\n", "services/small.yaml")
    text = "defaults: [cluster: hsg, services: small]\n" + RUN.split("driver:")[1].join(["driver:", ""])
    assert loaded(write(text, "p.yaml")).services["policy"].container == "from-fragment"


def test_the_environment_may_choose_a_fragment(folder: Path, write: Write) -> None:
    path = write("defaults:\n  - cluster: ${oc.env:SITE}\n" + RUN, "env.yaml")
    assert loaded(path, environ={"SITE": "eos"}).cluster.account == "eos"
    assert "SITE" in problems_of(path)["defaults"]


def test_fragments_are_read_as_strictly_as_the_config(folder: Path, write: Write) -> None:
    write("# @package _global_\na: 1\na: 2\n", "cluster/double.yaml")
    problems = problems_of(write("defaults: [cluster: double]\n" + RUN, "d.yaml"))
    assert "cluster/double.yaml, line 3" in problems["a"]
    write("# @package _global_\na: [1\n", "cluster/broken.yaml")
    problems = problems_of(write("defaults: [cluster: broken]\n" + RUN, "e.yaml"))
    assert any(where.startswith("cluster/broken.yaml") for where in problems) and "compute" not in problems


def test_fragments_keep_spellings(folder: Path, write: Write) -> None:
    write(cluster("0755").replace("slurm, ", "slurm, walltime: 12:00:00, "), "cluster/1.10.yaml")
    found = loaded(write("defaults: [cluster: 1.10]\n" + RUN, "f.yaml"))
    assert (found.cluster.account, found.cluster.walltime) == ("0755", "12:00:00")


@pytest.mark.parametrize(
    ("head", "fragment"),
    [
        ("defaults: [cluster: nope]\n", "cluster/nope"),
        ("defaults: 3\n", "must be a list"),
        ("defaults: [loop]\n", "itself"),
        ("defaults: [_self_, _self_]\n", "Duplicate _self_"),
    ],
)
def test_a_wrong_defaults_list_is_the_only_mistake_named(folder: Path, write: Write, head: str, fragment: str) -> None:
    problems = problems_of(write(head + RUN, "loop.yaml"))
    assert list(problems) == ["defaults"] and fragment in problems["defaults"]


def test_group_overrides_that_fit_nothing(folder: Path) -> None:
    assert "No match" in problems_of(folder / "own.yaml", ["cluster=eos"])["defaults"]
    assert "cluster/nope" in problems_of(folder / "run.yaml", ["cluster=nope"])["defaults"]


@pytest.mark.parametrize("name", ["../team/secret", "../cluster/../team/secret", "..", "/team/secret", "~/secret"])
def test_an_override_picks_no_file_outside_of_its_folder(folder: Path, write: Write, name: str) -> None:
    write(cluster("canary"), "team/secret.yaml")
    for text in (f"cluster='{name}'", f"+cluster@x='{name}'", f"cluster=['{name}']"):
        problems = problems_of(folder / "run.yaml", [text])
        assert "canary" not in str(problems) and problems
    assert problems_of(folder / "run.yaml", [f"cluster='{name}'"]) == {
        "override 'cluster'": "leads out of the folder 'cluster'; name a fragment that is in it"
    }


def test_of_several_files_the_one_that_lists_the_group_takes_the_override(folder: Path) -> None:
    tail = {"driver": {"container": "x"}}
    assert loaded([folder / "run.yaml", folder / "own.yaml", tail], ["cluster=eos"]).cluster.account == "eos"


def test_a_mapping_has_no_folder_for_fragments() -> None:
    assert "file" in problems_of({**config(), "defaults": ["cluster"]})["defaults"]
