"""``type: vllm_pd``: the router in front of the prefill and the decode tier."""

from __future__ import annotations

from airflow_gym_provider.config import SubmitConfig, VllmPDServiceConfig
from airflow_gym_provider.jobscript.nodes import host_word
from airflow_gym_provider.jobscript.services.step import command_line, service_step, text_flag
from airflow_gym_provider.jobscript.steps import Step

# The router insists on a port for its own metrics and ends if that is taken, as by the router of another job.
_FREE_METRICS_PORT = """\
metrics_port=29000
while (: <>"/dev/tcp/127.0.0.1/$metrics_port") 2>/dev/null; do
  metrics_port=$((metrics_port + 1))
done
"""


def router_steps(config: SubmitConfig, name: str, service: VllmPDServiceConfig) -> list[Step]:
    """``vllm-router`` on all interfaces, told every endpoint of both tiers: one per tier, or one per node."""
    flags, hosts = ["--host 0.0.0.0", f"--port {service.port}"], []
    for tier, settings in service.parts.items():
        for node in config.placement.services[f"{name}-{tier}"].api_nodes:
            hosts.append(host_word(node))
            # $1 is the router's own place, the hosts follow it.
            flags.append(f'--{tier} "http://${{{len(hosts) + 1}}}:{settings.port}"')
    flags += [
        text_flag("--prefill-policy", service.prefill_policy),
        text_flag("--decode-policy", service.decode_policy),
        f"--intra-node-data-parallel-size {service.intra_node_data_parallel_size}",
        f"--request-timeout-secs {service.request_timeout_secs}",
        text_flag("--log-level", service.log_level),
        f"--worker-startup-timeout-secs {_patience(config, name)}",
        "--worker-startup-check-interval 5",
        '--prometheus-port "$metrics_port"',
    ]
    command = _FREE_METRICS_PORT + command_line("exec vllm-router --vllm-pd-disaggregation", flags)
    return [service_step(config, name, "the router in front of the two tiers", command, arguments=hosts)]


def _patience(config: SubmitConfig, name: str) -> int:
    """Seconds the router waits for its tiers: as long as the health checks do, so that these decide."""
    deployed = config.services[name].deployed(name).values()
    return sum(service.health_check.timeout_seconds for service in deployed if service.health_check)
