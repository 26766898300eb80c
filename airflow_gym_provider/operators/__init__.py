"""Airflow operators: one evaluation as one task, or a whole config queued at once."""
