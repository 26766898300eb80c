"""``type: vllm``: the steps that start a vLLM server."""

from __future__ import annotations

from airflow_gym_provider.config import VllmServiceConfig
from airflow_gym_provider.jobscript.environment import export_lines
from airflow_gym_provider.jobscript.flags import join_flags, split_flags
from airflow_gym_provider.jobscript.quoting import quote
from airflow_gym_provider.jobscript.steps import Step
from airflow_gym_provider.jobscript.templating import render_template


def serve_flags(service: VllmServiceConfig) -> list[str]:
    """The flags of ``vllm serve`` that every shape shares, as bash text; what is not set is not passed."""
    flags = [f"--port {service.port}", f"--tensor-parallel-size {service.tensor_parallel_size}"]
    if service.pipeline_parallel_size > 1:
        flags.append(f"--pipeline-parallel-size {service.pipeline_parallel_size}")
    if service.served_model_name is not None:
        flags.append(text_flag("--served-model-name", service.served_model_name))
    if service.trust_remote_code:
        flags.append("--trust-remote-code")
    return flags


def text_flag(flag: str, value: str) -> str:
    """``flag value`` as bash text; in one word where the value itself looks like an option."""
    return f"{flag}={quote(value)}" if value.startswith("-") else f"{flag} {quote(value)}"


def serve_command(model: str, flags: list[str]) -> str:
    """The command line over several lines; `exec`, so that the step's signals reach the server itself."""
    return " \\\n  ".join([f"exec vllm serve {quote(model)}", *flags])


def single_node_step(name: str, service: VllmServiceConfig, *, place: str, node: int | None) -> Step:
    """One ``vllm serve`` on one node; several instances there are its data-parallel replicas."""
    flags = serve_flags(service)
    if service.number_of_instances > 1:
        flags.append(f"--data-parallel-size {service.number_of_instances}")
    extra = join_flags(split_flags(service.extra_args, f"{place}.extra_args"))
    body = render_template(
        "step_body.sh.j2",
        exports=export_lines(service.env, f"{place}.env"),
        pre_command=service.pre_command.rstrip("\n"),
        command=serve_command(service.model, [*flags, *([extra] if extra else [])]),
    )
    return Step(
        title=f"Service {name}: vLLM on one node.",
        name=name,
        container=service.container,
        mounts=service.mounts,
        nodes=None if node is None else [node],
        body=body,
    )
