"""Result files to numbers: what a benchmark has written, whether that is all of it, its metrics, and whether they fell.

Pure. `gate` and `paired` are not imported here: they bring SciPy, which no DAG file and no waiting task needs.
"""

from airflow_gym_provider.results.harness import RESULTS_FILE, HarnessError, harness_metrics
from airflow_gym_provider.results.kept import keep_rewards, kept_rewards
from airflow_gym_provider.results.metrics import MetricsError, key_metrics
from airflow_gym_provider.results.summary import Spread, Summary, parse_summary, summary_body, table_path
from airflow_gym_provider.results.survey import FileFacts, Survey, parse_survey, survey_body
from airflow_gym_provider.results.tasks import Comparison, Pair, Task, TaskRewards, compare_tasks
from airflow_gym_provider.results.verdict import Verdict, judge, recount

__all__ = [
    "RESULTS_FILE",
    "Comparison",
    "FileFacts",
    "HarnessError",
    "MetricsError",
    "Pair",
    "Spread",
    "Summary",
    "Survey",
    "Task",
    "TaskRewards",
    "Verdict",
    "compare_tasks",
    "harness_metrics",
    "judge",
    "keep_rewards",
    "kept_rewards",
    "key_metrics",
    "parse_summary",
    "parse_survey",
    "recount",
    "summary_body",
    "survey_body",
    "table_path",
]
