"""The pages inside Airflow's web UI, and the report file: what Airflow's database knows of evaluations, drawn.

`runs`, `chains`, `pairs`, `charts`, `render` and `report` are pure: values in, HTML out. `queries` reads the database,
`access` asks Airflow who may read what, `app` is the web application and `plugin` what Airflow finds.
"""
