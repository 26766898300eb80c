"""One try of one chain, on a cluster that is a list of looks."""

import copy
import logging

import pytest

from airflow_gym_provider.chain import ChainLook, Look, Outcome, OutcomeKind, SubmitReport
from airflow_gym_provider.chain.place import ASKED_FILE
from airflow_gym_provider.operators import _chain as module
from airflow_gym_provider.operators import _held
from airflow_gym_provider.operators._arguments import EvalArguments
from airflow_gym_provider.operators._chain import ChainTask
from airflow_gym_provider.results import Summary, Verdict
from airflow_gym_provider.slurm.status import JobRef, JobStatus

DONE = Verdict(True, "4 of 4 rollouts in /r", 4, 4)
MISSING = Verdict(False, "97 of 100 rollouts in /r", 97, 100)
LOG = logging.getLogger("chain")


class Survey:
    """Carries the verdict that the patched judge gives back."""

    def __init__(self, verdict):
        self.verdict = verdict
        self.metrics = {"mean/reward": 0.5}


def job(number, ending=None, *, live=None, **fields):
    values = {"state": ending.value if ending else "RUNNING", "known": True, "ending": ending} | fields
    return JobStatus(JobRef(str(number)), live=ending is None if live is None else live, **values)


class FakeCluster:
    """`looks`: what each look finds, the last one for ever; `outcomes`: what each submission comes to; `asked`: what it
    has written down of what it was asked, by directory; `summary`: what reading its rollouts comes to.
    """

    looks: list
    outcomes: list
    log: list
    asked: dict
    submissions: list
    since: float | None = None
    found = ()
    wait = None
    unwritable = ""
    task = ""
    summary = Summary(rollouts=4, tasks=2)

    def __init__(self, hook, plan):
        self.hook, self.plan = hook, plan

    def look(self, clusters=()):
        made = type(self)
        made.log.append("look")
        jobs, verdict, marks = made.looks.pop(0) if len(made.looks) > 1 else made.looks[0]
        survey = Survey(verdict) if verdict else None
        chain = ChainLook(
            self.plan.place,
            ids=tuple(j.ref.job_id for j in jobs),
            found=made.found,
            wait=made.wait,
            jobs=tuple(jobs),
            survey=survey,
            marks=marks,
            unwritable=made.unwritable,
            task=made.task,
            asked=made.asked.get(self.plan.job_dir, ""),
        )
        return Look(True, {self.plan.benchmark: chain})

    def cancel(self, why, job_ids=(), *, quick=False):
        type(self).log.append(f"cancel {why} {list(job_ids)}")
        return "cancelled job " + ", ".join(job_ids)

    def summarise(self, since=None):
        type(self).since = since
        return self.summary

    def count(self, decision):
        type(self).log.append("count")


@pytest.fixture
def cluster(monkeypatch):
    FakeCluster.looks, FakeCluster.outcomes, FakeCluster.log = [], [], []
    FakeCluster.asked, FakeCluster.submissions = {}, []
    monkeypatch.setattr(_held, "Cluster", FakeCluster)
    monkeypatch.setattr("airflow_gym_provider.operators._evidence.judge", lambda survey, spec, since: survey.verdict)
    monkeypatch.setattr(module, "log_tails", lambda *_: [])
    clock = {"now": 1000.0}
    monkeypatch.setattr(module.time, "time", lambda: clock["now"])
    monkeypatch.setattr(module.time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(module.time, "sleep", lambda seconds: clock.update(now=clock["now"] + seconds))
    FakeCluster.clock = clock

    def submit(hook, config, run, submissions, environ, **_):
        FakeCluster.log.append(f"submit {submissions[0].walltime}")
        outcome = FakeCluster.outcomes.pop(0)
        FakeCluster.submissions += submissions
        if outcome.kind is OutcomeKind.SUBMITTED:
            texts = {file.path: file.text for file in submissions[0].files}
            FakeCluster.asked[submissions[0].place.job_dir] = texts[ASKED_FILE]
        return SubmitReport({"gpqa": outcome})

    monkeypatch.setattr(module._submit, "submit", submit)
    return FakeCluster


@pytest.fixture
def task(context, submit_config):
    def make(**changes):
        values = {
            "config": submit_config,
            "benchmark": None,
            "overrides": (),
            "environ": {},
            "ssh_conn_id": None,
            "poll_interval": 30.0,
            "results_timeout": 60.0,
            "lost_after": 90.0,
            "run_group": None,
            "execution_timeout": None,
            "retry_delay": 2.0,
            "retries": 10_000,
        }
        return ChainTask(EvalArguments(**(values | changes)), context, LOG)

    return make


def look(*jobs, verdict=None, marks=()):
    return list(jobs), verdict, marks


SUBMITTED = Outcome(OutcomeKind.SUBMITTED, "job 7 is queued", "7")


def with_model(config, name):
    policy = config["services"]["policy"] | {"model": name}
    gpqa = config["driver"]["benchmarks"]["gpqa"] | {"resumable": True}
    made = {"services": {"policy": policy}, "driver": config["driver"] | {"benchmarks": {"gpqa": gpqa}}}
    return copy.deepcopy(config | made)
