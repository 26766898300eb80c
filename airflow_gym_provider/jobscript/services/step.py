"""What the steps of all services have in common, whatever program they start."""

from __future__ import annotations

from collections.abc import Sequence

from airflow_gym_provider.config import SubmitConfig
from airflow_gym_provider.jobscript.environment import export_lines
from airflow_gym_provider.jobscript.flags import RawWord, join_flags, split_flags
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.jobscript.steps import Step
from airflow_gym_provider.jobscript.templating import render_template


def service_step(
    config: SubmitConfig,
    name: str,
    title: str,
    command: str,
    *,
    nodes: Sequence[int] | None = None,
    arguments: Sequence[str] = (),
    stem: str | None = None,
    exports: Sequence[str] = (),
    template: str = "step_body.sh.j2",
    **values: object,
) -> Step:
    """A step of a deployed service: its image and mounts, and a shell that has its `env` and ran its `pre_command`.

    `command` is the bash text that comes then, as a rule one ``exec`` (see `command_line`). `nodes` are those of the
    service's placement unless the step is for some of them. `exports` come before the service's own `env`; `values` are
    for a `template` that needs more. For the rest see `Step`.

    Raises SubmitConfigError for an `env` that no shell takes.
    """
    service = config.deployed_services[name]
    body = render_template(
        template,
        exports=[*exports, *export_lines(service.env, f"{config.place_of(name)}.env")],
        pre_command=service.pre_command.rstrip("\n"),
        command=command,
        **values,
    )
    where = config.placement.services[name].nodes if nodes is None else nodes
    return Step(
        title=f"Service {name}: {title}.",
        name=name,
        stem=stem,
        container=service.container,
        mounts=service.mounts,
        nodes=where if config.placement.total_nodes > 1 else None,
        arguments=arguments,
        body=body,
    )


def command_line(program: str, flags: Sequence[str], extra: Sequence[RawWord] = (), *, last: Sequence[str] = ()) -> str:
    """One command over several lines: flags as bash text, then the words of `extra_args`, then what comes `last`."""
    return " \\\n  ".join([program, *flags, *([join_flags(extra)] if extra else []), *last])


def extra_words(config: SubmitConfig, name: str, extra_args: str) -> list[RawWord]:
    """The words of a service's `extra_args`. Raises SubmitConfigError when they cannot be told apart."""
    return split_flags(extra_args, f"{config.place_of(name)}.extra_args")


def text_flag(flag: str, value: str) -> str:
    """``flag value`` as bash text; in one word where the value itself looks like an option."""
    return f"{flag}={quote(value)}" if value.startswith("-") else f"{flag} {quote(value)}"
