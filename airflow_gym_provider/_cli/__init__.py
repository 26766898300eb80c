"""The commands of `airflow gym`, one module each."""
