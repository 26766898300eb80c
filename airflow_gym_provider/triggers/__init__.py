"""Airflow triggers: waiting for Slurm jobs without a worker."""
