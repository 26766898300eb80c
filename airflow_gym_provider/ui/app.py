"""The pages' web application, mounted by Airflow's API server below /gym.

Every route but the style sheet, the scripts and the pictures asks Airflow who may read what, and only GET exists.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from airflow.api_fastapi.common.db.common import SessionDep
from fastapi import FastAPI, HTTPException, Query, Request, Response
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import HTMLResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException as StarletteHTTPException

from airflow_gym_provider.ui import views
from airflow_gym_provider.ui.access import DAG_ACCESS, GetUserDep, readable
from airflow_gym_provider.ui.queries import gym_tasks
from airflow_gym_provider.ui.render import STATIC, page

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "frame-ancestors 'self'; base-uri 'none'; form-action 'self'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
_WORDS = {401: "Please sign in to Airflow first.", 403: "You may not read this.", 404: "There is no such thing here."}
_UNMAPPED = -1
Text = Annotated[str, Query(max_length=512, pattern=r"^[^\x00]*$")]
"""No name of Airflow's is longer, nor two together, and a NUL is an error in PostgreSQL rather than a name that is not
there."""


def make_app() -> FastAPI:
    """The application. Nothing of it is described to the outside: no schema, no docs pages."""
    app = FastAPI(title="Gym", openapi_url=None, docs_url=None, redoc_url=None)
    app.middleware("http")(_with_headers)
    app.exception_handler(StarletteHTTPException)(_show_error)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    app.get("/", response_class=HTMLResponse)(overview)
    for path, route in (("benchmark", history), ("compare", compare), ("chain", chain), ("report", report)):
        app.get(f"/dags/{{dag_id}}/{path}", response_class=HTMLResponse, dependencies=DAG_ACCESS)(route)
    return app


def overview(user: GetUserDep, session: SessionDep) -> str:
    """One row for each benchmark of every DAG that the user may read."""
    tasks = gym_tasks(session)
    allowed = readable(tasks, user, session)
    return views.overview(session, {dag_id: tasks[dag_id] for dag_id in allowed})


def history(
    dag_id: str,
    name: Text,
    session: SessionDep,
    *,
    metric: Text = "",
    cluster: Text | None = None,
    instance: Text = "",
) -> str:
    """One benchmark over its runs."""
    return _found(views.history(session, dag_id, name, cluster, instance=instance, metric=metric))


def compare(
    dag_id: str,
    name: Text,
    session: SessionDep,
    *,
    left: Text = "",
    right: Text = "",
    cluster: Text | None = None,
    instance: Text = "",
) -> str:
    """Two runs of a benchmark side by side."""
    return _found(views.compare(session, dag_id, name, cluster, instance=instance, left=left, right=right))


def chain(dag_id: str, run_id: Text, task_id: Text, session: SessionDep, map_index: str = "") -> str:
    """A task instance's chain of jobs. Airflow leaves `{MAP_INDEX}` as it is for a task that is not mapped."""
    index = int(map_index) if map_index.lstrip("-").isdecimal() and len(map_index) < 10 else _UNMAPPED
    return _found(views.chain(session, dag_id, run_id, task_id, index))


def report(dag_id: str, run_id: Text, session: SessionDep) -> Response:
    """All evaluations of a DAG run as one file to pass on."""
    content = _found(views.report(session, dag_id, run_id))
    return HTMLResponse(content, headers={"Content-Disposition": 'attachment; filename="report.html"'})


def _found(content: str | None) -> str:
    if content is None:
        raise HTTPException(404)
    return content


async def _with_headers(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    # Now: a mount below changes what the scope says.
    inside = request.scope["path"].removeprefix(request.scope.get("root_path", ""))
    request.state.root = "../" * inside.strip("/").count("/") or "./"
    response = await call_next(request)
    response.headers.update(_HEADERS)
    response.headers["Cache-Control"] = "no-cache" if inside.startswith("/static/") else "no-store"
    return response


async def _show_error(request: Request, error: Any) -> Response:
    """A small page for people, JSON for programs; neither repeats what was asked for."""
    if "text/html" not in request.headers.get("accept", ""):
        return await http_exception_handler(request, error)
    words = _WORDS.get(error.status_code, "This cannot be shown.")
    content = page("error.html.j2", root=request.state.root, words=words, status=error.status_code)
    return HTMLResponse(content, error.status_code)
