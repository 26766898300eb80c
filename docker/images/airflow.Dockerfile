# A host of the Airflow in ../compose.yaml: the official image with this provider, PostgreSQL and Redis. Which part it is,
# airflow.sh is told: run scheduler, run worker-1 ...; settings and secrets are in the volume /airflow.
ARG AIRFLOW_VERSION=3.3.2
FROM apache/airflow:${AIRFLOW_VERSION}-python3.12
ARG AIRFLOW_VERSION

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

USER 0
COPY docker/processes.sh docker/airflow.sh /opt/gym/docker/
COPY docker/airflow /opt/gym/docker/airflow
COPY docker/cluster/packages.sh /opt/gym/docker/cluster/
RUN bash /opt/gym/docker/airflow.sh install \
    && rm -rf /var/lib/apt/lists/* /tmp/gym-apt.* \
    && install -d -o airflow -g root /airflow /airflow/database /airflow/broker /airflow/task-logs /cluster /cluster/client \
    && install -d /opt/gym/dags

COPY pyproject.toml README.md /opt/gym/
COPY airflow_gym_provider /opt/gym/airflow_gym_provider
USER 50000:0
# Airflow is named once more so that it stays at the image's version.
RUN pip install --no-cache-dir "apache-airflow==${AIRFLOW_VERSION}" /opt/gym

ENV GYM_AIRFLOW_DIR=/airflow
WORKDIR /home/airflow
ENTRYPOINT ["bash", "/opt/gym/docker/airflow.sh"]
CMD ["help"]
