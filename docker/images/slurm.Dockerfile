# A host of the Slurm cluster in ../compose.yaml: controller, accounting, its database, login node or compute node.
# Which one it is, cluster.sh is told: run slurmctld, run slurmd-n1 ...; configuration and keys are in the volume /cluster.
FROM debian:12.12-slim

SHELL ["/bin/bash", "-o", "pipefail", "-c"]

# The scripts name the packages; they are the ones that the tests run with.
COPY docker/processes.sh docker/cluster.sh /opt/gym/docker/
COPY docker/cluster /opt/gym/docker/cluster
RUN bash /opt/gym/docker/cluster.sh install \
    && rm -rf /var/lib/apt/lists/* /tmp/gym-apt.*

# Everything runs as one user, who is also the one that logs in. A volume begins as its folder is here, owner included;
# the number is that of the user airflow in Airflow's image, who reads the key in /cluster/client.
RUN useradd --uid 50000 --user-group --create-home --shell /bin/bash --password '*' gym \
    && install -d -o gym -g gym /cluster /cluster/client /cluster/state /cluster/state/database /cluster/state/slurmctld /scratch

# What stands in for vllm and gym, as no image is ever pulled: see cluster/pyxis_standin.c.
COPY docker/standins /opt/gym/docker/standins

ENV GYM_CLUSTER_DIR=/cluster SLURM_CONF=/cluster/etc/slurm.conf
USER 50000:50000
WORKDIR /home/gym
ENTRYPOINT ["bash", "/opt/gym/docker/cluster.sh"]
CMD ["help"]
