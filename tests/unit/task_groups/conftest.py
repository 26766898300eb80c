from fakes.task_context import context, submit_config

__all__ = ["context", "submit_config"]
