"""Result files to numbers: what a benchmark has written, whether that is all of it, and its metrics. Pure."""

from airflow_gym_provider.results.metrics import MetricsError, key_metrics
from airflow_gym_provider.results.survey import FileFacts, Survey, parse_survey, survey_body
from airflow_gym_provider.results.verdict import Verdict, judge

__all__ = ["FileFacts", "MetricsError", "Survey", "Verdict", "judge", "key_metrics", "parse_survey", "survey_body"]
