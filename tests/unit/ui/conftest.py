"""The pages in process: Airflow's own database layer and authorisation, a real client, no server."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes.evaluations import Evaluations, database
from fastapi import FastAPI
from starlette.testclient import TestClient

from airflow_gym_provider.ui.plugin import PREFIX, LazyApp

Sign = Callable[..., TestClient]


@pytest.fixture(scope="session")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All tables, made once."""
    path = tmp_path_factory.mktemp("airflow") / "empty.db"
    with database(path):
        pass
    return path


@pytest.fixture
def evaluations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, empty_database: Path) -> Iterator[Evaluations]:
    """An empty Airflow with two teams: the DAG "ours" belongs to one, "theirs" to the other."""
    monkeypatch.setenv("AIRFLOW__CORE__MULTI_TEAM", "True")
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE", str(tmp_path / "passwords.json"))
    monkeypatch.setenv("AIRFLOW__API_AUTH__JWT_SECRET", "x" * 64)
    shutil.copy(empty_database, tmp_path / "airflow.db")
    with database(tmp_path / "airflow.db"):
        made = Evaluations()
        made.dag("ours", bundle="our-bundle", team="us")
        made.dag("theirs", bundle="their-bundle", team="them")
        yield made


@pytest.fixture
def sign(evaluations: Evaluations) -> Iterator[Sign]:
    """Makes a client of a user with this role and these teams; of nobody without a role."""
    from airflow.api_fastapi.app import init_auth_manager, purge_cached_app
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.models.dag import _team_name_cache

    purge_cached_app()
    _team_name_cache.clear()
    manager = init_auth_manager()

    def make(role: str | None = "viewer", *teams: str, prefix: str = "") -> TestClient:
        app = FastAPI(root_path=prefix)
        app.mount(f"/{PREFIX}", LazyApp())
        client = TestClient(app, base_url=f"http://airflow{prefix}/{PREFIX}/", raise_server_exceptions=True)
        if role is not None:
            user = SimpleAuthManagerUser(username="somebody", role=role, teams=list(teams))
            client.headers["Authorization"] = f"Bearer {manager.generate_jwt(user)}"
        return client

    yield make
    purge_cached_app()
    _team_name_cache.clear()


@pytest.fixture
def us(sign: Sign) -> TestClient:
    """Somebody who may read the DAG "ours" and no other."""
    return sign("viewer", "us")
