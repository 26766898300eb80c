"""Job steps: one ``srun`` each, fed with its shell text through a here-document."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from airflow_gym_provider.config import Problem, SubmitConfigError
from airflow_gym_provider.jobscript.names import file_stem
from airflow_gym_provider.jobscript.quoting import MAX_WORD_BYTES, heredoc_delimiter, quote
from airflow_gym_provider.jobscript.templating import render_template

ONE_TASK = ("--overlap", "--nodes=1", "--ntasks=1", "--ntasks-per-node=1")
"""Options of every step: one process on one node, beside the other steps, whatever the job's own directives say."""


@dataclass(frozen=True)
class Step:
    """One kind of process of the job: where it runs, in which image, and what its shell does.

    `nodes` are 0-based indexes into the allocation, one process on each; None is the only node of a one-node job.
    `body` is complete bash text. It finds its place among the nodes (0, 1, …) in ``$1``, and from ``$2`` on
    `arguments`, which are bash words of the batch shell. `stem` is what log and step are called, if not by `name`.
    """

    title: str
    name: str
    body: str
    container: str | None = None
    mounts: Sequence[str] = ()
    workdir: str | None = None
    nodes: Sequence[int] | None = None
    arguments: Sequence[str] = ()
    stem: str | None = None

    @property
    def log(self) -> str:
        """The step's log as a bash word, relative to the benchmark's directory."""
        return f'logs/{self.stem or file_stem(self.name)}-"$SLURM_JOB_ID".log'

    def render(self) -> str:
        """The step started in the background, its PID remembered for the health checks."""
        return self._render(background=True)

    def render_foreground(self) -> str:
        """The step run to its end; a status other than 0 is left in ``$driver_status``."""
        return self._render(background=False)

    def _render(self, *, background: bool) -> str:
        several = self.nodes is not None and len(self.nodes) > 1
        place = '"$place"' if several else "0"
        return render_template(
            "step.sh.j2",
            step=self,
            background=background,
            several=several,
            options=self._options(),
            arguments=[place, *self.arguments] if several or self.arguments else [],
            end=heredoc_delimiter(self.stem or file_stem(self.name), self.body),
        )

    def _options(self) -> list[str]:
        # What accounting calls the step, as its log is called; without it that would be "bash".
        options = [*ONE_TASK, f"--job-name={self.stem or file_stem(self.name)}"]
        if self.nodes is not None:
            options.append('--nodelist="${nodes[' + ("node" if len(self.nodes) > 1 else str(self.nodes[0])) + ']}"')
        if self.container is not None:
            options += ["--no-container-mount-home", quote(f"--container-image={self.container}")]
            if self.mounts:
                options.append(quote(mounts_option(self.mounts, self.name)))
            if self.workdir is not None:
                options.append(quote(f"--container-workdir={self.workdir}"))
        return options


def mounts_option(mounts: Sequence[str], name: str) -> str:
    """The option of ``srun`` that mounts all of them into the step `name`. Raises SubmitConfigError when it is longer
    than an argument may be.
    """
    option = "--container-mounts=" + ",".join(bind_mounts(mounts))
    if (size := len(option.encode())) > MAX_WORD_BYTES:
        told = f"together they make an argument of {size} bytes and Linux passes at most {MAX_WORD_BYTES}; mount less"
        raise SubmitConfigError([Problem(f"the mounts of {name}", told)])
    return option


def bind_mounts(mounts: Sequence[str]) -> list[str]:
    """Mounts in Pyxis' form ``src:dst[:flags]``, each once; a bare source is mounted at its own path."""
    return list(dict.fromkeys(mount if ":" in mount else f"{mount}:{mount}" for mount in mounts))
