"""What a task remembers of its chain between tries, and how it tells a clear from a retry.

The cluster is the truth; this holds only what the cluster cannot know. Airflow's task state store survives deferral,
retries, clearing and success; `max_tries` of a task instance stays on a retry and grows on a clear.

What happened to the task                      | next try
a retry, a killed worker, a lost heartbeat     | same directory, same budget
cleared, was not green                         | same directory, new budget
cleared, was green                             | new generation: a directory of its own, all new
cleared, its directory was another chain's     | the same: six digits tell directories of one DAG run apart
cleared, its results did not add up            | the same: more jobs would not mend them
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

KEY = "gym_chain"
MAX_SILENT = 20
"""Tries in a row that may end without a word, killed by the machine, until it looks as if every one will."""
SUCCESS = "success"


@dataclass
class ChainMemory:
    """One task instance's memory. Losing it (a purged or cleared store) costs the budget's start, nothing else.

    `first_start` is the time of the first try since the last clear, in seconds since 1970. `outages` and `unexpected`
    count failures that were not the job's; `starts` counts tries since one came to an end by itself. `new_budget` asks
    for the budget to begin with the next submission. `place` is where the chain was last seen: how to kill it. `lost`
    is the job that a trigger has waited for in vain: the try that replaces it must not wait for it again. `held` is the
    job that was last waited for: when nothing is left of it, its directory has vanished. `asked` is the directory in
    which a job was last asked for: there may be one, also when nobody has heard the answer. `models` is what that job
    was to evaluate, as is `wanted`, see `Asked`; `anew` counts how often since a clear results were left behind which
    had been asked for otherwise. `way` is the login node by which `held` was seen last. `takes_over`: since a clear,
    what lies there may be another map index's. `own`: a job of this generation has been known. `foreign`: none was, and
    the directory is somebody else's. `spoilt`: its results look complete, and do not add up. `unread`: how often they
    could not be read since the last clear. `unseen`: how often in a row a trigger has seen an end, and the task's own
    look has not.
    """

    max_tries: int = 0
    generation: int = 0
    budget_base: int = 0
    new_budget: bool = False
    outcome: str = ""
    first_start: float = 0.0
    outages: int = 0
    unexpected: int = 0
    starts: int = 0
    deployment: str = ""
    lost: str = ""
    held: str = ""
    asked: str = ""
    models: str = ""
    wanted: dict[str, Any] = field(default_factory=dict)
    anew: int = 0
    way: str = ""
    takes_over: bool = False
    own: bool = False
    foreign: bool = False
    spoilt: bool = False
    unread: int = 0
    unseen: int = 0
    place: dict[str, Any] = field(default_factory=dict)
    _store: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, context: Context) -> ChainMemory:
        """What is in the store of this task instance."""
        store: Any = context["task_state_store"]
        raw = store.get(KEY) or {}
        # a newer release may have written more than we know, an older one less
        memory = cls(**{name: raw[name] for name in cls._names() if name in raw})
        memory.own = memory.own or (bool(raw) and "own" not in raw)  # who knows what an older one has had
        memory._store = store
        return memory

    def save(self) -> None:
        """Write it back."""
        self._store.set(KEY, {name: getattr(self, name) for name in self._names()})

    @classmethod
    def _names(cls) -> list[str]:
        return [f.name for f in fields(cls) if f.name != "_store"]

    def begin(self, context: Context, retries: int, now: float) -> bool:
        """Account for a new try; True when it follows a clear. Saved. `now` in seconds since 1970."""
        max_tries: int = context["ti"].max_tries
        known = self.max_tries > 0
        cleared = max_tries > (self.max_tries if known else retries)
        if cleared and known:
            self._cleared(clear_number(context, retries))
        if cleared or not self.first_start:
            self.first_start = now
        self.max_tries = max_tries
        self.starts += 1
        self.save()
        return cleared

    def succeed(self) -> None:
        """Keep that the task is green: what was counted against it is over, and a clear starts afresh."""
        self.outcome, self.outages, self.unexpected, self.starts = SUCCESS, 0, 0, 0
        self.save()

    def renew(self, clears: int) -> None:
        """Start afresh in a directory of its own. The number never falls, also when the store has been lost between.

        `clears`, see `clear_number`, is the same for all tasks of one clear: a group that is cleared as a whole shares
        its new directory too.
        """
        self.generation = max(self.generation + 1, clears)
        self.budget_base, self.new_budget, self.held, self.asked, self.place = 0, False, "", "", {}
        self.own = self.foreign = self.spoilt = False
        self.unread = 0

    def leave(self) -> None:
        """Start afresh, for what lies there was asked for otherwise. Counted: see `anew`."""
        self.anew += 1
        self.renew(0)

    def _cleared(self, clears: int) -> None:
        if self.outcome == SUCCESS or self.foreign or self.spoilt:
            self.renew(clears)
        else:
            self.new_budget = True
        self.outcome, self.held, self.asked, self.outages, self.unexpected, self.starts = "", "", "", 0, 0, 0
        self.way, self.anew, self.unread = "", 0, 0


def clear_number(context: Context, retries: int) -> int:
    """How often something in this DAG run has been cleared; without that, the tries before the clear of this task."""
    number: int | None = getattr(context.get("dag_run"), "clear_number", None)
    return number or context["ti"].max_tries - retries
