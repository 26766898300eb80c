"""The table of sbatch's refusals: which text means what, whose field it is, and what helps.

Texts of Slurm 22.05 to 25.05 (src/common/slurm_errno.c), and the limits by the names that squeue's man page lists.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = ["LOOK", "REASONS", "Reason"]


class Reason(NamedTuple):
    """Texts that match `pattern` mean `kind`; `field` is relative to the compute entry, "" when none is to blame."""

    pattern: str
    kind: Literal["permanent", "later", "unsure"]
    field: str
    cure: str


LOOK = "the job may have been queued although the answer was lost; look for it by name before another try"
_LIMIT = "the limit on submitted jobs is reached; to be tried again later"
_BUSY = "slurmctld does not take jobs at the moment; to be tried again later"
_DOWN = "slurmctld cannot be reached; to be tried again later"
_NO_CONF = (
    "Slurm's configuration was not found; when it never is, SLURM_CONF is not set for commands over ssh: set it where "
    "a shell that is no login shell reads it, such as ~/.bashrc"
)
_AWAY = "nodes or a partition are down or drained; to be tried again later"
_FULL = "slurmctld cannot write its state (StateSaveLocation is full, or away); to be tried again later"
_UNNAMED = (
    "a limit of the account or the QOS is reached, and sbatch does not say which; compare with "
    "`sacctmgr show assoc` and `sacctmgr show qos`; to be tried again later"
)
_SHORTER = "ask for less time, or for a partition or QOS that allows it"
_SMALLER = "ask for what the partition's nodes have and the account's limits allow, or for another partition"
_ASSOC = "name one that `sacctmgr show assoc user=$USER` lists together with the partition"


def _permanent(field: str, cure: str, *patterns: str) -> Reason:
    return Reason("|".join(patterns), "permanent", field, cure)


REASONS = (
    # The first that fits decides: lost answers before refusals, limits by their names before the general sentence
    # that follows them.
    Reason(r"timed out|Zero Bytes|Unexpected message|Broken pipe|receive failure", "unsure", "", LOOK),
    Reason(r"(?:Assoc|QOS)\w*Submit\w*Limit|MaxSubmitJob", "later", "", _LIMIT),
    Reason(r"temporarily unable to accept job|Resource temporarily unavailable", "later", "", _BUSY),
    Reason(r"[Rr]ate.?limit|[Tt]oo many jobs", "later", "", _BUSY),
    Reason(r"\(connect failure\)|Connection refused|No route to host|in standby mode", "later", "", _DOWN),
    Reason(r"establish a configuration source", "later", "", _NO_CONF),
    Reason(r"Required (?:partition|node)s? not available", "later", "", _AWAY),
    Reason(r"I/O error writing script", "later", "", _FULL),
    Reason(r"Unable to contact slurm controller", "unsure", "", LOOK),
    _permanent("walltime", _SHORTER, r"MaxWall", r"(?:Assoc|QOS)\w*(?:Wall|Minutes|Mins)", r"QOSTimeLimit"),
    _permanent("walltime", _SHORTER, r"[Tt]ime limit", r"PartitionTimeLimit", r"--time"),
    _permanent(
        "node_pools.*.partition",
        "name a partition that `sinfo` lists on that cluster",
        r"[Ii]nvalid partition",
        r"No partition specified",
        r"Requested partition configuration",
    ),
    _permanent(
        "account",
        _ASSOC.replace("one", "an account", 1),
        r"account/partition",
        r"[Ii]nvalid account",
        r"account not permitted",
        r"group not permitted",
        r"permission denied",
    ),
    _permanent("extra_args.qos", _ASSOC.replace("one", "a QOS", 1), r"[Ii]nvalid qos", r"QOS not permitted"),
    _permanent("extra_args.reservation", "name a reservation that is active and open to you", r"[Rr]eservation"),
    _permanent("extra_args.constraint", "name a feature that `sinfo -o %f` lists", r"[Ii]nvalid feature"),
    _permanent("extra_args.licenses", "name a licence that `scontrol show licenses` lists", r"[Ii]nvalid license"),
    _permanent(
        "node_pools.*.gpus_per_node",
        "ask for GPUs that the partition's nodes have (`sinfo -o %G`)",
        r"generic resource",
        r"[Ii]nvalid GRES",
        r"Requested GRES",
        r"--gpus",
        r"\w*MaxGRES",
    ),
    _permanent("extra_args.mem", "state memory that its nodes have", r"[Mm]emory", r"--mem\b", r"Max\w*Mem"),
    _permanent("node_pools.*.nodes", _SMALLER, r"[Nn]ode count", r"PartitionNodeLimit", r"--nodes\b", r"Max\w*Node"),
    _permanent("extra_args.nodelist", "name nodes that `sinfo -N` lists", r"[Nn]ode name"),
    _permanent(
        "node_pools",
        _SMALLER,
        r"[Nn]ode configuration is not available",
        r"[Mm]ore processors requested",
        r"--ntasks",
        r"--cpus",
        r"(?:QOS|Assoc)(?:Max|Min|Grp)\w*",
        r"\(TRES\)",
    ),
    _permanent("extra_args.dependency", "leave dependencies to Airflow", r"[Dd]ependency"),
    _permanent(
        "extra_args",
        "keep to options that this cluster's `sbatch --help` lists",
        r"unrecognized option",
        r"invalid option",
        r"(?:requires|doesn't allow) an argument",
        r"[Ii]nvalid [\w-]+ (?:specification|specified)",
        r"Invalid --",
        r"[Ii]nvalid wckey",
    ),
    Reason(r"violates accounting/QOS policy", "later", "extra_args.qos", _UNNAMED),
    _permanent("", "the job script itself is refused", r"[Bb]atch script"),
    _permanent(
        "",
        "the job script is larger than slurmctld takes (max_script_size, 4 MB unless the site says otherwise), or the "
        "text of one directive is too long",
        r"Pathname of a file",
    ),
)
