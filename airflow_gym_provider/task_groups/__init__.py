"""Task groups: a whole submit config as one piece of a DAG."""

from airflow_gym_provider.task_groups.evals import GymEvals, gym_evals

__all__ = ["GymEvals", "gym_evals"]
