from fakes.chain_task import cluster, task
from fakes.filled_in import load
from fakes.task_context import context, submit_config

__all__ = ["cluster", "context", "load", "submit_config", "task"]
