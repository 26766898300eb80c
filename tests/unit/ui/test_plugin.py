"""What Airflow finds: one plugin, cheap to load, with addresses that fit any prefix; and what is shipped with it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from importlib.metadata import entry_points

from airflow_gym_provider.ui.plugin import GymPlugin
from airflow_gym_provider.ui.render import STATIC

UPLOT = {  # of the package uplot 1.6.32 in npm's registry
    "uplot-1.6.32.min.js": "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
    "uplot-1.6.32.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}
PROGRAM = """
import json, sys
from importlib.metadata import entry_points
(found,) = entry_points(group="airflow.plugins", name="gym")
before = set(sys.modules)
import airflow.sdk.plugins_manager
base = set(sys.modules)
found.load()()
print(json.dumps(sorted(set(sys.modules) - base)))
"""


def test_airflow_finds_it():
    (found,) = entry_points(group="airflow.plugins", name="gym")
    assert found.load() is GymPlugin


def test_loading_it_brings_nothing_but_itself():
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    new = json.loads(ran.stdout.splitlines()[-1])
    assert set(new) - {"airflow_gym_provider"} == {"airflow_gym_provider.ui", "airflow_gym_provider.ui.plugin"}


def test_it_is_a_page_and_a_tab_with_relative_addresses():
    views = {view["destination"]: view for view in GymPlugin.external_views}
    assert set(views) == {"nav", "task_instance"}
    assert len({view["url_route"] for view in views.values()}) == 2
    for view in views.values():
        for name in ("href", "icon", "icon_dark_mode"):
            assert view.get(name, "gym/").startswith("gym/")
    assert all(
        (STATIC / view[name].rpartition("/")[2]).is_file()
        for view in views.values()
        for name in ("icon", "icon_dark_mode")
        if name in view
    )
    (app,) = GymPlugin.fastapi_apps
    assert app["url_prefix"] == "/gym"


def test_the_chart_library_is_the_one_that_was_published_with_its_licence():
    for name, digest in UPLOT.items():
        assert hashlib.sha256((STATIC / name).read_bytes()).hexdigest() == digest
    assert "MIT License" in (STATIC / "uplot-LICENSE.txt").read_text()
