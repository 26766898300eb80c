"""What can go wrong with a chain as a whole. Each says by its class whether trying again can help."""

from __future__ import annotations


class ChainError(RuntimeError):
    """The chain's directory cannot be used. The text names the place and the cure; trying again may help."""


class ForeignDirectoryError(ChainError):
    """The run directory belongs to somebody else; nothing was written. Trying again cannot help."""


class SlurmNotFoundError(ChainError):
    """No Slurm on the login node's PATH: a setting of the connection is wrong. Trying again cannot help."""


class BusyError(ChainError):
    """Somebody else is at work in the run directory for longer than we wait. Trying again helps."""


class CutOffError(ChainError):
    """The answer ended early. What the script had begun it has finished or left findable: look again, that is safe."""
