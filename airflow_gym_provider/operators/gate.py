"""GymGateOperator: a DAG refuses a checkpoint that is worse than what was there before.

Imported by DAG files, so it imports next to nothing: SciPy and the SSH client come when the task runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from airflow.sdk.bases.branch import BranchMixIn

from airflow_gym_provider.operators._again import RetriedOperator, told_at_once

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

    from airflow_gym_provider.operators._gate import Judged

LAST_GREEN = "last_green"


class GymGateOperator(RetriedOperator, BranchMixIn):
    """Compares the benchmarks of this run with a baseline, and fails, skips or branches when they got worse.

    Per benchmark and metric the outcome is one of four, with a sentence that says why: what moved from what to what,
    how sure that is, over how many tasks. `mean/reward` is tested over the tasks that both runs have (the same index
    and the same prompt): one-sided, by a sign-flip permutation test of the paired differences, corrected for the number
    of such tests, with a bootstrap interval. Other metrics, and fixed numbers, are compared without a test.

    ============  ====================================================================  ==================
    outcome       means                                                                 what then
    ============  ====================================================================  ==================
    pass          no drop beyond the tolerated one that could be told from chance       green
    regressed     there is one                                                          `on_regressed`
    inconclusive  too few tasks, results incomplete, a metric missing or no number, …   `on_inconclusive`
    no_baseline   `last_green`, and no earlier green run of this benchmark              `on_no_baseline`
    ============  ====================================================================  ==================

    The last green run is the newest earlier run (by logical date) whose gate is green and which this gate found good.
    Mark a red gate as success in Airflow's UI to make its run the baseline of the next. An instance of a mapped gate is
    compared with the instance that judged the same benchmark, with that of the same map index where several did.

    What cannot be read, since the login node is away, is tried again twice (`retries`, `retry_delay`); no verdict is.
    Pushes the XCom `gym_verdict`: outcome and sentence of all, of each benchmark, of each metric. Returns the outcome.

    :param candidate: results of `GymEvalOperator` (its `.output`; of mapped tasks too), or the absolute path of a run
        directory on the cluster. The results of all direct upstream tasks unless given (templated);
        in a mapped task group of those of the same round.
    :param baseline: `last_green`; the id of a run of this DAG; the absolute path of a run directory; results, as for
        `candidate`; or numbers, `{"gpqa": {"mean/reward": 0.61}}` (templated).
    :param metrics: metric to its rule, a mapping of `max_drop` (tolerated, in the metric's unit), `max_drop_percent`
        (of the baseline), `higher_is_better`, `exclude_drop` (a pass needs the interval to rule out a drop this large).
        `{"mean/reward": {}}` unless given: any drop that chance does not explain.
    :param benchmark_metrics: benchmark to such a mapping, in the place of `metrics` for it.
    :param min_pairs: fewer tasks than these in both runs are inconclusive.
    :param min_overlap: so is an overlap of less than this share of the larger run's tasks.
    :param alpha: the chance of a false alarm, over all metrics tested together. A larger one finds smaller drops.
    :param correction: `holm`, `benjamini-hochberg` or `none`.
    :param paired: False compares numbers only.
    :param same_prompts: False takes tasks of the same index for the same, whatever was asked.
    :param on_regressed: `fail`, `skip` or `branch`.
    :param on_inconclusive: `fail`, `skip`, `branch`, or `pass_with_warning`; the last does not make a baseline.
    :param on_no_baseline: `accept` (this run becomes the baseline), `fail` or `skip`.
    :param follow_on_pass: with `branch`: task ids directly downstream that go on after a pass, or what counts as one.
    :param follow_on_regressed: those that go on otherwise.
    :param ssh_conn_id: SSH connection of the login node; None when the files are on the worker (templated).
    :param read_timeout: seconds that reading one benchmark's files may take. They are summarised there if they are not
        yet: a minute for 2 GB, three where there is no Python.
    """

    inherits_from_skipmixin = True
    template_fields: Sequence[str] = ("candidate", "baseline", "ssh_conn_id")
    template_ext: Sequence[str] = ()
    ui_color = "#f6e3c5"

    def __init__(
        self,
        *,
        candidate: Any = None,
        baseline: str | Mapping[str, Any] | Sequence[Any] = LAST_GREEN,
        metrics: Mapping[str, Mapping[str, Any]] | None = None,
        benchmark_metrics: Mapping[str, Mapping[str, Mapping[str, Any]]] | None = None,
        min_pairs: int = 10,
        min_overlap: float = 0.5,
        alpha: float = 0.01,
        correction: Literal["holm", "benjamini-hochberg", "none"] = "holm",
        paired: bool = True,
        same_prompts: bool = True,
        on_regressed: Literal["fail", "skip", "branch"] = "fail",
        on_inconclusive: Literal["fail", "skip", "branch", "pass_with_warning"] = "fail",
        on_no_baseline: Literal["accept", "fail", "skip"] = "accept",
        follow_on_pass: str | Sequence[str] | None = None,
        follow_on_regressed: str | Sequence[str] | None = None,
        ssh_conn_id: str | None = None,
        read_timeout: float = 1800.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.candidate = candidate
        self.baseline = baseline
        self.metrics = metrics
        self.benchmark_metrics = benchmark_metrics
        self.min_pairs = min_pairs
        self.min_overlap = min_overlap
        self.alpha = alpha
        self.correction = correction
        self.paired = paired
        self.same_prompts = same_prompts
        self.on_regressed = on_regressed
        self.on_inconclusive = on_inconclusive
        self.on_no_baseline = on_no_baseline
        self.follow_on_pass = follow_on_pass
        self.follow_on_regressed = follow_on_regressed
        self.ssh_conn_id = ssh_conn_id
        self.read_timeout = read_timeout
        self._check_settings()

    def _check_settings(self) -> None:
        """Refuse in the DAG file what would only be noticed on the day of a regression."""
        for name, known in (
            ("on_regressed", ("fail", "skip", "branch")),
            ("on_inconclusive", ("fail", "skip", "branch", "pass_with_warning")),
            ("on_no_baseline", ("accept", "fail", "skip")),
        ):
            if getattr(self, name) not in known:
                raise ValueError(f"{name} is {getattr(self, name)!r}; write one of {', '.join(known)}")
        branches = "branch" in (self.on_regressed, self.on_inconclusive)
        if branches and (self.follow_on_pass is None or self.follow_on_regressed is None):
            raise ValueError("branch needs follow_on_pass and follow_on_regressed: the task ids of either way")

    def execute(self, context: Context) -> str:
        """Judge, push `gym_verdict`, then fail, skip, branch or return the outcome."""
        from airflow_gym_provider.operators._gate import judge

        with told_at_once():
            judged = judge(self, context)
        return self._act(judged, context)

    def _act(self, judged: Judged, context: Context) -> str:
        from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

        outcome, action, sentence = judged.outcome, judged.action, judged.sentence
        if action == "fail":
            raise AirflowFailException(f"{outcome}: {sentence}")
        if action == "skip":
            raise AirflowSkipException(f"{outcome}: {sentence}")
        log = self.log.info if outcome == "pass" else self.log.warning
        log("%s: %s", outcome, sentence)
        if action == "branch":
            self.do_branch(context, self.follow_on_regressed)
        elif self.follow_on_pass is not None:
            self.do_branch(context, self.follow_on_pass)
        return outcome
