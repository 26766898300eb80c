"""What Airflow finds of the pages: a web application without a server of its own, and where its pages are shown.

Every process of Airflow loads its plugins, workers and the scheduler too, so this imports nothing but Airflow's plugin
class; the application is made when the API server is asked for its first page.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from airflow.sdk.plugins_manager import AirflowPlugin

PREFIX = "gym"
_Message = MutableMapping[str, Any]


class LazyApp:
    """The ASGI application of `app.make_app`, made at the first request."""

    def __init__(self) -> None:
        self._app: Any = None

    async def __call__(
        self,
        scope: _Message,
        receive: Callable[[], Awaitable[_Message]],
        send: Callable[[_Message], Awaitable[None]],
    ) -> None:
        """One request, as ASGI says."""
        if self._app is None:
            from airflow_gym_provider.ui.app import make_app

            self._app = make_app()
        await self._app(scope, receive, send)

    def __repr__(self) -> str:
        return "airflow_gym_provider.ui.app"


class GymPlugin(AirflowPlugin):
    """The page *Gym* in the navigation, and the tab *Gym chain* of task instances.

    Addresses are relative, so that Airflow may be served below any prefix.
    """

    name = "gym"
    fastapi_apps = [{"name": "Gym", "app": LazyApp(), "url_prefix": f"/{PREFIX}"}]  # noqa: RUF012 (Airflow's form)
    external_views = [  # noqa: RUF012
        {
            "name": "Gym",
            "href": f"{PREFIX}/",
            "destination": "nav",
            "nav_top_level": True,
            "url_route": "gym",
            "icon": f"{PREFIX}/static/gym-light.svg",
            "icon_dark_mode": f"{PREFIX}/static/gym-dark.svg",
        },
        {
            "name": "Gym chain",
            "href": f"{PREFIX}/dags/{{DAG_ID}}/chain?run_id={{RUN_ID}}&task_id={{TASK_ID}}&map_index={{MAP_INDEX}}",
            "destination": "task_instance",
            "url_route": "gym-chain",
        },
    ]
