"""The bounds of one chain, as the config states them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """How far a chain may go. Times are seconds; None means no bound.

    `walltime` is what one job asks for (the `walltime` of the compute entry), `max_walltime` the most that all jobs of
    one budget may use together. `compute` is the name of the compute entry, for texts that name a config field.
    """

    resumable: bool = False
    max_retries: int = 0
    max_walltime: int | None = None
    walltime: int | None = None
    compute: str = "<name>"

    def rest(self, used: int) -> int | None:
        """Seconds of `max_walltime` that are left after `used` seconds, negative past it; None without a cap."""
        return None if self.max_walltime is None else self.max_walltime - used

    def next_walltime(self, used: int) -> int | None:
        """Time limit in seconds for the next job's sbatch, so that it ends within the cap.

        None: what the job script asks for is right as it is.
        """
        rest = self.rest(used)
        if rest is None or (self.walltime is not None and self.walltime <= rest):
            return None
        return rest
