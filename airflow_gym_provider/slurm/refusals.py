"""What sbatch said: a job, or why there is none, and whether there may be one all the same.

Three kinds of refusal, from what each would cost if it were taken for another:

* *permanent*: Slurm has looked at the job and refuses it for what it asks for. Only a change of the config helps, so
  the text names the field. Taken from known reasons alone.
* *later*: Slurm refuses, or cannot be reached before anything was sent, for a reason that passes by itself: limits on
  the number of submitted jobs, a controller that is not up. Trying again is safe and costs the chain nothing.
* *unsure*: everything else. The request may have reached slurmctld although the answer was lost ("Socket timed out on
  send/recv operation"), or the text is none that we know. A caller must look for the job, by name, before it tries
  again; a wrong "permanent" would stop a chain whose job runs, a wrong "later" would start a second one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from airflow_gym_provider.slurm.reasons import LOOK, REASONS, Reason
from airflow_gym_provider.slurm.remote import Answer

__all__ = ["Refusal", "SbatchAnswer", "read_sbatch"]

_JOB = re.compile(r"(?:Submitted batch job )?(?P<id>[1-9]\d*)(?:(?:;| on cluster )(?P<cluster>[\w.-]+))?")
_SLURM_LINE = re.compile(r"^sbatch: (?:error|fatal): (.+)", re.MULTILINE)
# Follows every refusal by a limit, and names limits that were not meant.
_GENERAL = re.compile(r" \(job submit limit, user's size and/or time limits\)")
_HEADING = re.compile(r"Batch job submission failed: ?")


@dataclass(frozen=True)
class SbatchAnswer:
    """A job that exists: its id, its cluster on a federation, and what sbatch said besides (a warning, not an
    error).
    """

    job_id: str
    cluster: str | None = None
    warning: str = ""


@dataclass(frozen=True)
class Refusal:
    """No job, or none that is known of. `text` is what sbatch said; `field` the config's, "" when none is to blame."""

    kind: Literal["permanent", "later", "unsure"]
    text: str
    field: str = ""
    cure: str = ""

    def __str__(self) -> str:
        return self.told(self.field and f"See {self.field}")

    def told(self, blamed: str) -> str:
        """What sbatch said, whom that blames in the words of somebody who has the config at hand, and the cure."""
        advice = ": ".join(part.rstrip(".") for part in (blamed, self.cure) if part)
        return ". ".join(part for part in (self.text.rstrip("."), advice) if part)


def read_sbatch(answer: Answer, compute: str = "<name>") -> SbatchAnswer | Refusal:
    """What one `sbatch` (plain or --parsable) came to; `compute` is the name of the config's compute entry, for fields.

    Success is exit status 0 with an id on standard output, whatever standard error holds: sbatch prints an id and
    "unable to accept job, sleeping and retrying" at once. The last line that is an id counts, so banners and wrappers
    may print around it; the word "Submitted" alone is none. An id beside a failing status is "unsure", as is a success
    without one.
    """
    jobs = [match for line in answer.stdout.splitlines() if (match := _JOB.fullmatch(line.strip()))]
    said = _said(answer)
    if jobs and answer.returncode == 0:
        return SbatchAnswer(jobs[-1]["id"], jobs[-1]["cluster"], " ".join(answer.stderr.split()))
    if jobs:
        return Refusal(
            "unsure", f"sbatch answered job {jobs[-1]['id']} and exit status {answer.returncode}: {said}", cure=LOOK
        )
    if answer.returncode == 0:
        return Refusal("unsure", f"sbatch reported success, but no job id: {said}", cure=LOOK)
    return _refusal(said, compute, answer)


def _refusal(said: str, compute: str, answer: Answer) -> Refusal:
    text = f"sbatch refused the job (exit status {answer.returncode}): {said}"
    reason = _reason(_of_slurm(answer.stderr) or said)
    if answer.returncode in (126, 127):
        return Refusal("permanent", text, cure="set slurm_bin to the folder that holds sbatch")
    if reason is None or (reason.kind == "permanent" and "sbatch:" not in answer.stderr):
        return Refusal("unsure", text, cure=LOOK)
    field = f"compute.{compute}.{reason.field}" if reason.field else ""
    return Refusal(reason.kind, text, field, reason.cure)


def _reason(text: str) -> Reason | None:
    plain = _GENERAL.sub("", text)
    return next((item for item in REASONS if re.search(item.pattern, plain)), None)


def _of_slurm(stderr: str) -> str:
    """The lines that are to be trusted when Slurm's own sentence says nothing, as "Unspecified error" does: a site's
    plugin has refused the job then, and may name any field in its own words. "" when all may be read.
    """
    lines = _SLURM_LINE.findall(stderr)
    verdicts = [_HEADING.sub("", line) for line in lines if _HEADING.match(line)]
    if not verdicts or any(map(_reason, verdicts)):
        return ""
    return "; ".join([*verdicts, *(line for line in lines if re.fullmatch(r"\w+", line.strip()))])


def _said(answer: Answer) -> str:
    errors = [_HEADING.sub("", line).strip() for line in _SLURM_LINE.findall(answer.stderr)]
    text = "; ".join(dict.fromkeys(errors)) or " ".join((answer.stderr or answer.stdout).split())
    return text[:600] or "it said nothing"
