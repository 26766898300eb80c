"""One real Airflow beside one real Slurm for all tests of this folder.

Airflow's real time is long: a walltime of one minute takes 80 s. So a test names the DAG that it is about,

    @pytest.mark.dag("e2e_something")
    def test_something(run): ...

(`listening=("other",)` for DAGs that this one's assets or tasks start)

and the first test that needs a run starts the runs of all tests that are going to be run; they go on side by side. Jobs
that a test must catch alive wait at a gate until the test opens it.

GYM_E2E_DIR names a folder whose stack is used (and brought up if need be) and left running: for writing tests. Else
there is a private one in a folder under /tmp, which goes away with the session.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from stack import REPO, Run, Stack

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "dag(dag_id, listening=()): the test is about a run of this DAG; see the fixture `run`"
    )
    config.addinivalue_line("markers", "outage: takes parts of Airflow and Slurm down; comes last")
    config.addinivalue_line("markers", "spread: on an Airflow of several machines, which takes the place of the first")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    for item in items:
        if HERE in item.path.parents and "slurm" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.airflow)
    yield
    items.sort(key=_place)


def _place(item: pytest.Item) -> tuple[bool, bool, bool, int]:
    """Whatever the order: what waits longest comes late, when it has gone on beside the others for long. What ends the
    daemons that all share comes last, stage after stage.
    """
    spread, outage, slow = (item.get_closest_marker(name) is not None for name in ("spread", "outage", "slow"))
    return spread, outage, slow, (item.location[1] or 0) if outage else 0


@pytest.fixture(scope="session")
def slurm() -> Iterator[Stack]:
    """Slurm, up; its Airflow is not yet. The DAGs are those of tests/e2e/dags and of dags/."""
    files = [path for folder in (HERE / "dags", REPO / "dags") for path in folder.iterdir() if path.is_file()]
    if given := os.environ.get("GYM_E2E_DIR"):
        kept = Stack(Path(given), files)
        kept.up_cluster()
        yield kept
        return
    # Not pytest's own folder: the paths of Unix sockets are short.
    folder = Path(tempfile.mkdtemp(prefix="gym-e2e-", dir="/tmp"))
    made = Stack(folder, files)
    try:
        made.up_cluster()
        yield made
    finally:
        made.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def stack(slurm: Stack) -> Stack:
    """Airflow and Slurm, up."""
    slurm.up()
    return slurm


@pytest.fixture(scope="session")
def runs(request: pytest.FixtureRequest, stack: Stack) -> dict[str, Run]:
    """DAG id to the run of it that was started for the tests of this session."""
    marks = [mark for item in request.session.items for mark in item.iter_markers("dag")]
    listening = {dag_id for mark in marks for dag_id in mark.kwargs.get("listening", ())}
    return stack.start(sorted({mark.args[0] for mark in marks}), sorted(listening))


@pytest.fixture
def run(request: pytest.FixtureRequest, runs: dict[str, Run]) -> Run:
    """The run of the DAG that the test is marked with."""
    mark = request.node.get_closest_marker("dag")
    assert mark, "mark the test with the DAG that it is about"
    return runs[mark.args[0]]
