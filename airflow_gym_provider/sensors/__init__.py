"""Airflow sensors: waiting for jobs that something else has queued."""
