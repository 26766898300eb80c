"""What is shipped: wheel and sdist hold everything, their metadata is right, and imports and declarations agree."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from datetime import date
from email.message import Message
from email.parser import Parser
from functools import cache
from itertools import pairwise
from pathlib import Path
from shutil import copyfile

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import airflow_gym_provider

REPO = Path(__file__).parents[2]
PACKAGE = REPO / "airflow_gym_provider"
PROJECT = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
# What the one on the right asks for in exactly one version each.
_PARTS_OF = {
    "apache-airflow-core": "apache-airflow",
    "apache-airflow-task-sdk": "apache-airflow",
    "pydantic-core": "pydantic",
}
_FORMS = {"apache-airflow-providers-ssh"}  # there for its form of a connection


@cache
def kept() -> list[str]:
    """The files that a clone has."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=REPO, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.split("\0") if name and (REPO / name).is_file()]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what a `clone` has, an sdist of that, and a wheel that is built from the sdist."""
    out = tmp_path_factory.mktemp("dist")
    for name in kept():
        (out / "clone" / name).parent.mkdir(parents=True, exist_ok=True)
        copyfile(REPO / name, out / "clone" / name)
    words = [sys.executable, "-m", "build", "--no-isolation", "--outdir", out, out / "clone"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def wheel(built: Path) -> zipfile.ZipFile:
    return zipfile.ZipFile(next(built.glob("*.whl")))


def metadata(built: Path) -> Message:
    with wheel(built) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


def test_the_wheel_of_the_sdist_holds_each_file_of_the_package_and_no_other(built):
    with wheel(built) as archive:
        inside = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    of_package = {name for name in kept() if name.startswith("airflow_gym_provider/")}
    assert inside.keys() == of_package
    assert [name for name in of_package if inside[name] != (built / "clone" / name).read_bytes()] == []
    suffixes = {Path(name).suffix for name in of_package}
    assert suffixes >= {".py", ".j2", ".sh", ".awk", ".js", ".css", ".svg", ".typed"}


def test_the_sdist_holds_the_whole_checkout_but_its_dotfiles(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert inside - {"PKG-INFO", ".gitignore"} == {name for name in kept() if not name.startswith(".")}


def test_the_version_has_one_place(built):
    version = airflow_gym_provider.__version__
    assert metadata(built)["Version"] == version
    assert "version" in PROJECT["dynamic"]
    assert next(built.glob("*.whl")).name == f"airflow_gym_provider-{version}-py3-none-any.whl"


def test_the_metadata_are_those_of_the_project(built):
    found = metadata(built)
    assert found["Name"] == PROJECT["name"]
    assert found["Requires-Python"] == PROJECT["requires-python"]
    assert found["License-Expression"] == PROJECT["license"]
    assert found.get_all("License-File") == PROJECT["license-files"]
    assert {*map(Requirement, found.get_all("Requires-Dist"))} == {*map(Requirement, PROJECT["dependencies"])}
    assert found["Description-Content-Type"] == "text/markdown"
    assert found.get_payload().strip() == (REPO / "README.md").read_text().strip()


def test_airflow_and_python_find_the_entry_points(built):
    with wheel(built) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt"))
        words = archive.read(name).decode()
    assert "[apache_airflow_provider]\nprovider_info = airflow_gym_provider:get_provider_info" in words
    assert "[airflow.plugins]\ngym = airflow_gym_provider.ui.plugin:GymPlugin" in words


def test_every_dependency_says_from_which_version_on():
    bounds = {text: {part.operator for part in Requirement(text).specifier} for text in PROJECT["dependencies"]}
    assert [text for text, operators in bounds.items() if ">=" not in operators] == []


@cache
def owners() -> dict[str, set[str]]:
    """The distributions by the dotted name of each module that they hold. `airflow` is of several."""
    found: dict[str, set[str]] = {}
    for distribution in importlib.metadata.distributions():
        name = canonicalize_name(distribution.metadata["Name"])
        for path in distribution.files or ():
            if path.suffix in (".py", ".so"):
                parts = [*path.parts[:-1], path.name.partition(".")[0]]
                found.setdefault(".".join(part for part in parts if part != "__init__"), set()).add(name)
    return found


def owner(module: str) -> str:
    """The distribution that an import needs: the one with the longest part of its name."""
    while module and module not in owners():
        module = module.rpartition(".")[0]
    (name,) = {_PARTS_OF.get(name, name) for name in owners().get(module, {"nobody"})}
    return name


def imported(path: Path) -> set[str]:
    """Names of modules, anywhere in the file; of `from a import b` both a and a.b, for b may be a module."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.partition(".")[0] not in {*sys.stdlib_module_names, "airflow_gym_provider"}}


def test_what_is_imported_is_declared_and_what_is_declared_is_imported():
    run_elsewhere = PACKAGE / "jobscript" / "templates"  # in the containers of a job
    here = [path for path in sorted(PACKAGE.rglob("*.py")) if run_elsewhere not in path.parents]
    modules = {name: path for path in here for name in imported(path)}
    needed = {owner(name): f"{path.relative_to(REPO)}: {name}" for name, path in modules.items()}
    declared = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    assert {name: where for name, where in needed.items() if name not in declared} == {}, "imported, not declared"
    assert declared - needed.keys() == _FORMS, "declared, not imported"


_RELEASE = re.compile(r"^## \[(?P<version>[^\]]+)\](?: - (?P<day>\d{4}-\d{2}-\d{2}))?$", re.MULTILINE)
_KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]


def test_the_changelog_has_the_form_of_keep_a_changelog_and_the_version_of_the_package():
    text = (PACKAGE / "CHANGELOG.md").read_text()
    assert text.startswith("# Changelog\n")
    releases = list(_RELEASE.finditer(text))
    assert len(releases) == len(re.findall(r"^## ", text, re.MULTILINE)), "a heading of no release"
    assert releases[0]["version"] == "Unreleased"
    assert releases[1]["version"] == airflow_gym_provider.__version__
    days = [date.fromisoformat(found["day"]) for found in releases[1:]]
    assert days == sorted(days, reverse=True)
    for begin, end in pairwise([*(found.end() for found in releases), len(text)]):
        kinds = re.findall(r"^### (.*)$", text[begin:end], re.MULTILINE)
        assert kinds == [kind for kind in _KINDS if kind in kinds], "other kinds of changes, or in another order"
        changes = [part.strip() for part in re.split(r"^### .*$", text[begin:end], flags=re.MULTILINE)[1:]]
        assert [change[:40] for change in changes if not change.startswith("- ")] == []


def anchors(text: str) -> set[str]:
    """Where a page's headings can be reached, as GitHub makes names of them."""
    titles = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title.strip().lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", [name for name in kept() if name.endswith(".md")])
def test_each_link_of_a_document_leads_to_a_file_or_heading_that_is_there(name):
    text = (REPO / name).read_text()
    targets = re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text)
    nowhere = []
    for target in filter(None, (first or second for first, second in targets)):
        if re.match(r"https?://", target):
            continue
        path, _, heading = target.partition("#")
        page = (REPO / name).parent / path if path else REPO / name
        if not page.exists() or (heading and heading not in anchors(page.read_text())):
            nowhere.append(target)
    assert nowhere == []
