"""Who sees what: every route, with Airflow's own authorisation deciding."""

from __future__ import annotations

import pytest
from fakes.evaluations import evaluation, task
from fastapi.routing import APIRoute

from airflow_gym_provider.ui.access import GetUserDep
from airflow_gym_provider.ui.app import make_app

RUN = "the_run"
OTHER = "another_run"
PAGES = {
    "benchmark": "benchmark?name={benchmark}",
    "compare": "compare?name={benchmark}",
    "chain": "chain?run_id={run}&task_id={benchmark}",
    "report": "report?run_id={run}",
}


def address(page: str, dag_id: str, run: str = RUN) -> str:
    benchmark = "gpqa" if dag_id == "ours" else "their_secret"
    return f"dags/{dag_id}/" + PAGES[page].format(benchmark=benchmark, run=run)


@pytest.fixture(autouse=True)
def both_have_run(evaluations):
    evaluations.run("ours", [evaluation("gpqa", 0.25)], RUN)
    evaluations.run("theirs", [evaluation("their_secret", 0.987654)], OTHER)


@pytest.mark.parametrize("page", ["", *(address(page, "ours") for page in PAGES)])
def test_without_a_session_there_is_nothing(sign, page):
    answer = sign(None).get(page)
    assert answer.status_code == 401
    assert "gpqa" not in answer.text


@pytest.mark.parametrize("page", ["", *(address(page, "ours") for page in PAGES)])
def test_a_token_that_is_none_is_no_session(sign, page):
    client = sign(None)
    client.headers["Authorization"] = "Bearer x.y.z"
    answer = client.get(page)
    assert answer.status_code == 403
    assert "gpqa" not in answer.text


@pytest.mark.parametrize("page", PAGES)
def test_of_a_dag_that_may_be_read_there_is_everything(us, page):
    answer = us.get(address(page, "ours"))
    assert answer.status_code == 200
    assert "gpqa" in answer.text


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("run", [RUN, OTHER])
def test_of_a_dag_that_may_not_be_read_there_is_nothing(us, page, run):
    answer = us.get(address(page, "theirs", run))
    assert answer.status_code == 403
    assert "their_secret" not in answer.text
    assert "0.98" not in answer.text


@pytest.mark.parametrize("page", PAGES)
def test_a_role_that_may_read_nothing_reads_nothing(sign, page):
    answer = sign("", "us").get(address(page, "ours"))
    assert answer.status_code == 403
    assert "gpqa" not in answer.text


@pytest.mark.parametrize(
    "page",
    [
        f"chain?run_id={OTHER}&task_id=their_secret",
        f"chain?run_id={OTHER}&task_id=gpqa",
        f"report?run_id={OTHER}",
        "benchmark?name=their_secret",
        "compare?name=their_secret",
        f"compare?name=gpqa&left={RUN}&right={OTHER}",
        "benchmark?name=gpqa&dag_id=theirs&cluster=nowhere",
        f"chain?run_id={OTHER}&task_id=their_secret&dag_id=theirs",
    ],
)
def test_another_dags_run_is_not_reached_through_ours(us, page):
    answer = us.get(f"dags/ours/{page}")
    assert answer.status_code == 404
    assert "0.98" not in answer.text
    assert "secret" not in answer.text


def test_the_overview_has_what_may_be_read(us, sign):
    ours = us.get("").text
    assert "gpqa" in ours
    assert "their_secret" not in ours
    assert "0.98" not in ours
    both = sign("viewer", "us", "them").get("").text
    assert "gpqa" in both
    assert "their_secret" in both
    nobody = sign("", "us").get("")
    assert "gpqa" not in nobody.text


def test_access_to_runs_and_xcoms_is_needed_not_to_the_dag_alone(us, monkeypatch):
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity

    for entity in (DagAccessEntity.RUN, DagAccessEntity.TASK_INSTANCE, DagAccessEntity.XCOM):
        with monkeypatch.context() as patch:
            manager = get_auth_manager()
            allowed = manager.is_authorized_dag

            def all_but_one(*, access_entity=None, allowed=allowed, entity=entity, **more):
                return access_entity is not entity and allowed(access_entity=access_entity, **more)

            patch.setattr(manager, "is_authorized_dag", all_but_one)
            assert "gpqa" not in us.get("").text
            assert [us.get(address(page, "ours")).status_code for page in PAGES] == [403] * len(PAGES)


def test_every_route_asks_who_is_there():
    """A route that is added without it is found here."""
    routes = [route for route in make_app().routes if isinstance(route, APIRoute)]
    get_user = GetUserDep.__metadata__[0].dependency
    assert len(routes) == 1 + len(PAGES)
    for route in routes:
        assert route.methods == {"GET"}
        pending = list(route.dependant.dependencies)
        asked = set()
        while pending:
            one = pending.pop()
            asked.add(one.call)
            pending += one.dependencies
        assert get_user in asked, route.path


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
@pytest.mark.parametrize("page", ["", address("chain", "ours")])
def test_nothing_can_be_changed(us, method, page):
    assert getattr(us, method)(page).status_code == 405


@pytest.mark.parametrize("page", ["docs", "redoc", "openapi.json", "static/../app.py", "static/%2e%2e/app.py"])
def test_there_is_nothing_else(us, page):
    assert us.get(page).status_code == 404


@pytest.mark.parametrize("value", ["%00", "gpqa%00", "x" * 513])
@pytest.mark.parametrize("page", ["benchmark?name={}", "compare?name=gpqa&left={}", "chain?run_id={}&task_id=gpqa"])
def test_what_can_be_no_name_is_not_asked_for(us, page, value):
    """PostgreSQL takes no NUL: the page would be an error of ours."""
    assert us.get(f"dags/ours/{page.format(value)}").status_code == 422


def test_a_page_may_load_nothing_from_elsewhere_and_is_not_kept(us):
    for page in ("", address("benchmark", "ours")):
        answer = us.get(page)
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert "unsafe" not in policy
        assert "frame-ancestors 'self'" in policy
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
    assert us.get("static/gym.css").headers["cache-control"] == "no-cache"


def test_people_get_an_error_to_read_and_programs_json(us):
    page = us.get(address("chain", "theirs"), headers={"Accept": "text/html"})
    assert page.status_code == 403
    assert page.headers["content-type"].startswith("text/html")
    assert 'href="../../static/gym.css"' in page.text
    assert us.get(address("chain", "theirs")).json() == {"detail": "Forbidden"}


def test_a_task_that_is_no_evaluation_says_so(us, evaluations):
    run = evaluations.run("ours", [task("report", return_value={"secret": "not for this page"})])
    answer = us.get("dags/ours/chain", params={"run_id": run, "task_id": "report", "map_index": "{MAP_INDEX}"})
    assert answer.status_code == 200
    assert "No Slurm jobs" in answer.text
    assert "not for this page" not in answer.text
