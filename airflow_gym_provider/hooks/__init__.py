"""Airflow hooks: how a script reaches the machine where Slurm's commands are."""
