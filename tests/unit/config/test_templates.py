"""Files as templates: Airflow renders Jinja in them before they are parsed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from jinja2 import Environment, StrictUndefined

from airflow_gym_provider.config import SubmitConfigError, load_submit_config

from .builders import BASE

Write = Callable[..., Path]


def render(text: str) -> str:
    return Environment(undefined=StrictUndefined, autoescape=False).from_string(text).render(ds="2026-01-02")


def test_a_file_and_its_fragments_are_rendered_before_parsing(write: Write) -> None:
    write("# @package _global_\njob: {output_path: '/out/{{ ds }}'}\n", "where/there.yaml")
    path = write("defaults: [where: there, _self_]\n_day: '{{ ds }}'\n" + BASE.split("job:")[0], "run.yaml")
    assert load_submit_config(path, environ={}, render=render).job.output_path == "/out/2026-01-02"


def test_without_a_renderer_braces_are_text(write: Write) -> None:
    path = write(BASE)
    found = load_submit_config(path, ["job.output_path='/out/{{ ds }}'"], {})
    assert found.job.output_path == "/out/{{ ds }}"


def test_an_unknown_name_is_a_problem_of_the_file(write: Write) -> None:
    with pytest.raises(
        SubmitConfigError, match=r"submit.yaml: cannot be rendered as a template: .*'nope' is undefined"
    ):
        load_submit_config(write("# {{ nope }}\n" + BASE, "submit.yaml"), environ={}, render=render)


def test_the_renderer_is_for_one_call_only(write: Write) -> None:
    with pytest.raises(SubmitConfigError):
        load_submit_config(write("{{ nope }}", "a.yaml"), environ={}, render=render)
    assert load_submit_config(write(BASE.replace("job:", "# {{ nope }}\njob:"), "b.yaml"), environ={})
