from fakes.chain_task import cluster, task
from fakes.task_context import context, submit_config

__all__ = ["cluster", "context", "submit_config", "task"]
