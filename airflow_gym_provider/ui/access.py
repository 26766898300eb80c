"""Who may read what: Airflow's own authorisation, asked at every request. Nothing here remembers an answer.

A page shows runs, task instances and XComs of DAGs, so the user must be allowed to read all three of each DAG, as the
REST API wants it for the same values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, requires_access_dag
from airflow.models.dag import DagModel
from fastapi import Depends
from sqlalchemy.orm import Session

__all__ = ["DAG_ACCESS", "GetUserDep", "readable"]

_ENTITIES = (DagAccessEntity.RUN, DagAccessEntity.TASK_INSTANCE, DagAccessEntity.XCOM)
DAG_ACCESS = [Depends(requires_access_dag("GET", entity)) for entity in (None, *_ENTITIES)]
"""Dependencies of a route with `dag_id` in its path: 401 without a session, 403 when the DAG may not be read."""


def readable(dag_ids: Iterable[str], user: Any, session: Session) -> list[str]:
    """Those of `dag_ids` of which the user may read all that a page shows."""
    manager = get_auth_manager()
    allowed = sorted(set(dag_ids) & manager.get_authorized_dag_ids(user=user, method="GET", session=session))
    teams = DagModel.get_dag_id_to_team_name_mapping(allowed, session=session) if allowed else {}
    return [dag_id for dag_id in allowed if _may(manager, dag_id, teams.get(dag_id), user)]


def _may(manager: Any, dag_id: str, team: str | None, user: Any) -> bool:
    details = DagDetails(id=dag_id, team_name=team)
    return all(
        manager.is_authorized_dag(method="GET", access_entity=entity, details=details, user=user)
        for entity in _ENTITIES
    )
