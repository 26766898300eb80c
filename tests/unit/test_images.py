"""The compose file and the images as far as they can be read: what the tools say, and that they fit the scripts."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from fakes.containers import COMPOSE, REPO, Image, composed

IMAGES = sorted((REPO / "docker" / "images").glob("*.Dockerfile"))


@cache
def services() -> dict[str, dict]:
    return composed()["services"]


def parts_of(script: str, folder: Path) -> set[str]:
    """What the script names when it is asked for a part that there is not."""
    done = subprocess.run(
        ["bash", REPO / "docker" / script, "answers", "nobody", "--dir", folder], capture_output=True, text=True
    )
    assert done.returncode != 0
    return set(done.stderr.partition("there are: ")[2].split())


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.stem)
def test_the_linter_finds_nothing_in_a_dockerfile(image):
    program = Path(sys.executable).with_name("hadolint")
    done = subprocess.run([program, "--no-color", image], capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize("image", IMAGES, ids=lambda path: path.stem)
def test_what_an_image_copies_is_in_the_checkout_and_reaches_the_engine(image):
    allowed = [line[1:] for line in (REPO / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    copied = [source for source, _ in Image(image).copies()]
    assert copied
    for source in copied:
        assert (REPO / source).exists()
        assert [path for path in allowed if source == path or source.startswith(path + "/")], source


def test_the_engine_gets_nothing_that_no_image_copies():
    lines = (REPO / ".dockerignore").read_text().splitlines()
    copied = {source for image in IMAGES for source, _ in Image(image).copies()}
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == {
        source for source in copied if not source.startswith("docker/cluster/")
    }


def test_each_part_that_the_scripts_know_has_one_service_and_no_other_is_run(tmp_path):
    ran = [each["command"][1] for each in services().values() if each["command"][0] == "run"]
    cluster = parts_of("cluster.sh", tmp_path / "cluster") - {"munged"}  # beside each of the others
    subprocess.run(["bash", REPO / "docker" / "airflow.sh", "prepare", "--dir", tmp_path / "airflow"], check=True)
    assert sorted(ran) == sorted(cluster | parts_of("airflow.sh", tmp_path / "airflow"))


def test_a_host_is_called_as_the_scripts_call_it():
    for name, each in services().items():
        if each["command"][0] == "run":
            part = each["command"][1]
            assert name == each["hostname"] == {"sshd": "login"}.get(part, part.removeprefix("slurmd-"))
            assert each["healthcheck"]["test"][2:] == [each["healthcheck"]["test"][2], "answers", part]


def test_who_waits_for_health_waits_for_a_service_with_a_check():
    waits = [(name, other, how["condition"]) for name, each in services().items() for other, how in depends(each)]
    for name, other, condition in waits:
        assert ("healthcheck" in services()[other]) == (condition == "service_healthy"), (name, other)
        assert (services()[other]["restart"] == "no") == (condition == "service_completed_successfully"), (name, other)


def depends(service: dict) -> list[tuple[str, dict]]:
    return list(service.get("depends_on", {}).items())


@pytest.mark.parametrize("name", services())
def test_no_host_has_a_privilege(name):
    each = services()[name]
    assert each["cap_drop"] == ["ALL"]
    assert each["security_opt"] == ["no-new-privileges:true"]
    assert each["init"] is True
    assert not {"privileged", "cap_add", "devices", "network_mode", "pid", "ipc", "user"} & set(each)
    image = Image(REPO / each["build"]["dockerfile"])
    assert image.user > 0
    assert re.fullmatch(r"[\w./-]+:(\d[\w.-]+|\$\{AIRFLOW_VERSION\}[\w.-]+)", image.base)


def test_secrets_are_made_and_mounted_and_never_written_down():
    text = COMPOSE.read_text()
    assert "environment: {GYM_OUTPUT_PATH: /scratch/runs}" in text
    assert {name for each in services().values() for name in each.get("environment", {})} == {"GYM_OUTPUT_PATH"}
    set_at_start = [word for word in services()["prepare-airflow"]["command"] if "=" in word]
    assert not [word for word in set_at_start if re.search("KEY|SECRET|PASSWORD|CONN=|BROKER", word)]
    assert [port["host_ip"] for each in services().values() for port in each.get("ports", ())] == ["127.0.0.1"]


def test_of_airflow_s_hosts_only_those_that_reach_the_cluster_have_its_key():
    mounts = {
        name: {mount["source"] for mount in each["volumes"]}
        for name, each in services().items()
        if each["build"]["dockerfile"].endswith("airflow.Dockerfile")
    }
    holders = {name for name, sources in mounts.items() if "client" in sources}
    assert holders == {"migrate", "api-server", "triggerer-1", "triggerer-2", "worker-1", "worker-2"}
    assert [name for name, sources in mounts.items() if sources & {"cluster", "accounting", "controller"}] == []
