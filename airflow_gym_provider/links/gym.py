"""Buttons on an evaluation task: its run directory, driver log and record on the cluster, and its results page.

Airflow asks a worker for them whenever a try defers or ends, and keeps them as XComs. They need the XCom `gym_job`,
which is there as soon as a job is. The UI shows a link only with an http(s) or relative address, so those to files
appear there when the connection's extra `files_url` says where a browser finds them; without it they are `sftp://`
addresses, which the REST API and notifications give.
"""

from __future__ import annotations

import posixpath
from abc import abstractmethod
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import quote, urlencode

from airflow.sdk import BaseOperatorLink

from airflow_gym_provider import xcom_keys

if TYPE_CHECKING:
    from airflow.sdk import BaseOperator, Connection
    from airflow.sdk.types import TaskInstanceKey

_PLACE_KEYS = (xcom_keys.JOB, xcom_keys.RESULT)
_PAGES = "airflow_gym_provider.ui.plugin"


class _FileLink(BaseOperatorLink):
    """A path on the cluster as an address."""

    label: ClassVar[str]

    @property
    def name(self) -> str:
        """The button's text."""
        return self.label

    @abstractmethod
    def path(self, place: Mapping[str, Any]) -> str:
        """The path, from what the task pushed; "" for none."""

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address; "" while there is none. Never raises: a task is not to hear of a button that cannot be drawn."""
        try:
            place = job_place(ti_key)
            path = self.path(place)
            return file_url(path, getattr(operator, "ssh_conn_id", None), place.get("hostname")) if path else ""
        except Exception:
            return ""


class RunDirectoryLink(_FileLink):
    """The directory that all benchmarks of a run share."""

    label = "Run directory"

    def path(self, place: Mapping[str, Any]) -> str:
        """See `_FileLink`."""
        return str(place.get("run_dir") or "")


class DriverLogLink(_FileLink):
    """What gym printed in the newest job."""

    label = "Driver log"

    def path(self, place: Mapping[str, Any]) -> str:
        """See `_FileLink`."""
        from airflow_gym_provider.slurm.keys import number_of  # the room is more than a DAG file should load

        job_id = number_of(str(place.get("job_id") or ""))
        return posixpath.join(place["logs"], f"driver-{job_id}.log") if job_id and place.get("logs") else ""


class JobRecordLink(_FileLink):
    """gym-job.json: what was submitted."""

    label = "Job record"

    def path(self, place: Mapping[str, Any]) -> str:
        """See `_FileLink`."""
        run_dir = place.get("run_dir")
        return str(place.get("record") or (posixpath.join(run_dir, "gym-job.json") if run_dir else ""))


class ResultsPageLink(BaseOperatorLink):
    """The benchmark's page in Airflow's UI. Relative to Airflow's base address, so a prefix does no harm."""

    @property
    def name(self) -> str:
        """The button's text."""
        return "Results"

    def get_link(self, operator: BaseOperator, *, ti_key: TaskInstanceKey) -> str:
        """The address; "" without the pages, or while the task has no job. Never raises."""
        try:
            benchmark = job_place(ti_key).get("benchmark") if find_spec(_PAGES) else None
        except Exception:
            return ""
        if not benchmark:
            return ""
        return f"gym/dags/{quote(ti_key.dag_id, safe='')}/benchmark?{urlencode({'name': benchmark})}"


def job_place(ti_key: TaskInstanceKey) -> Mapping[str, Any]:
    """Where the task's chain lies: what it pushed before it waited, or what it returned; {} before either."""
    from airflow.sdk.execution_time.xcom import XCom

    for key in _PLACE_KEYS:
        place = XCom.get_value(ti_key=ti_key, key=key)
        if isinstance(place, Mapping) and place.get("run_dir"):
            return place
    return {}


def file_url(path: str, ssh_conn_id: str | None, hostname: str | None = None) -> str:
    """The address of a path on the cluster of a connection; "" when that is this machine and nothing serves its files.

    By the connection's `files_url`, in which {path} is replaced (or to which the path is appended), else sftp://, also
    where `files_url` is no address of a page. Holds
    the login's name, no secret. `hostname` counts when the connection names no host.
    """
    if ssh_conn_id is None:
        return ""
    from airflow.sdk import BaseHook

    from airflow_gym_provider.hooks.files_url import is_files_url

    conn = BaseHook.get_connection(ssh_conn_id)
    extra = conn.extra_dejson if conn.extra else {}
    template = str(extra.get("files_url") or "").strip()
    if is_files_url(template):
        quoted = quote(path, safe="/")
        return template.replace("{path}", quoted) if "{path}" in template else template.rstrip("/") + quoted
    return _sftp_url(path, conn, hostname)


def _sftp_url(path: str, conn: Connection, hostname: str | None) -> str:
    host = conn.host or hostname
    if not host:
        return ""
    host = f"[{host}]" if ":" in host else host
    user = f"{quote(conn.login, safe='')}@" if conn.login else ""
    port = f":{conn.port}" if conn.port and int(conn.port) != 22 else ""
    return f"sftp://{user}{host}{port}{quote(path, safe='/')}"


FILE_LINKS = (RunDirectoryLink(), JobRecordLink())
"""Of every task that queues something."""
EVAL_LINKS = (ResultsPageLink(), RunDirectoryLink(), DriverLogLink(), JobRecordLink())
"""Of a task that runs one benchmark."""
