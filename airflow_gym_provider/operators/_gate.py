"""One judgement of a gate: which runs, their files, the verdicts, and what Airflow is to make of them."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from airflow_gym_provider import xcom_keys
from airflow_gym_provider.hooks.slurm import SlurmHook
from airflow_gym_provider.operators._gate_baseline import index_values, last_green, map_index, named_run
from airflow_gym_provider.operators._gate_runs import BenchmarkRun, GateReader, results_before, runs_of_results
from airflow_gym_provider.operators.gate import LAST_GREEN, GymGateOperator
from airflow_gym_provider.results.gate import GateReport, GateSettings, MetricRule, Outcome, Side, judge_gate
from airflow_gym_provider.results.headline import headline
from airflow_gym_provider.storable import storable

if TYPE_CHECKING:
    from airflow.sdk.definitions.context import Context

_LONGEST = 4000
_METRICS_KEPT = 50
Rules = dict[str, dict[str, MetricRule]]


@dataclass(frozen=True)
class Judged:
    """What came of it. `action`: pass, fail, skip or branch."""

    outcome: str
    action: str
    sentence: str


@dataclass(frozen=True)
class _Compared:
    """What is compared, by benchmark: runs as they were read, and as the gate judges them."""

    candidates: dict[str, BenchmarkRun]
    baselines: dict[str, BenchmarkRun | Side]
    mine: dict[str, Side]
    theirs: dict[str, Side]


def judge(gate: GymGateOperator, context: Context) -> Judged:
    """Compare, and push what was found. Raises AirflowFailException for what no other try would mend."""
    rules, settings = _rules(gate), _settings(gate)
    with SlurmHook(gate.ssh_conn_id) as hook:
        hook.load()
        reader = GateReader(hook, gate.read_timeout)
        candidates = _candidates(gate, context, reader)
        compared = _read(candidates, _baselines(gate, context, reader, candidates), reader)
    if gate.baseline != LAST_GREEN:
        _miss(compared)
    report = judge_gate(compared.mine, compared.theirs, rules, settings)
    action = _action(gate, report.outcome)
    _push(context, report, compared, action)
    return Judged(report.outcome.value, action, report.sentence[:_LONGEST])


def _rules(gate: GymGateOperator) -> Rules:
    given = {"*": gate.metrics or {"mean/reward": {}}, **(gate.benchmark_metrics or {})}
    rules: Rules = {}
    for benchmark, metrics in given.items():
        for metric, rule in metrics.items():
            try:
                rules.setdefault(benchmark, {})[metric] = MetricRule(**rule)
            except (TypeError, ValueError) as err:
                where = "metrics" if benchmark == "*" else f"benchmark_metrics[{benchmark!r}]"
                raise AirflowFailException(f"{where}[{metric!r}] of the gate cannot be used: {err}") from None
    return rules


def _settings(gate: GymGateOperator) -> GateSettings:
    try:
        return GateSettings(
            min_pairs=gate.min_pairs,
            min_overlap=gate.min_overlap,
            alpha=gate.alpha,
            correction=gate.correction,
            paired=gate.paired,
            same_prompts=gate.same_prompts,
        )
    except ValueError as err:
        raise AirflowFailException(f"The gate's settings cannot be used: {err}") from None


def _candidates(gate: GymGateOperator, context: Context, reader: GateReader) -> dict[str, BenchmarkRun]:
    given = gate.candidate
    if isinstance(given, str):
        if not given.startswith("/"):
            raise AirflowFailException(f"candidate is {given!r}; write results of evaluations or an absolute path")
        return reader.directory(given)
    if given is None:
        given = results_before(gate, context["ti"])
    return runs_of_results(given, "this run")


def _baselines(
    gate: GymGateOperator, context: Context, reader: GateReader, candidates: Mapping[str, BenchmarkRun]
) -> dict[str, BenchmarkRun | Side]:
    given = gate.baseline
    if given == LAST_GREEN:
        return dict(last_green(context, candidates))
    if isinstance(given, str):
        is_path = given.startswith("/")
        return dict(reader.directory(given) if is_path else named_run(context, given, gate, candidates))
    runs = runs_of_results(given, "the baseline")
    if runs:
        return dict(runs)
    if not isinstance(given, Mapping) or not all(isinstance(numbers, Mapping) for numbers in given.values()):
        raise AirflowFailException(f"baseline is {given!r}; numbers are written as {{'gpqa': {{'mean/reward': 0.61}}}}")
    return {name: Side("the fixed numbers", dict(numbers), fixed=True) for name, numbers in given.items()}


def _read(
    candidates: Mapping[str, BenchmarkRun], baselines: Mapping[str, BenchmarkRun | Side], reader: GateReader
) -> _Compared:
    """Both runs of every benchmark, read from the cluster one benchmark after the other."""
    found = _Compared({}, dict(baselines), {}, {})
    for name, candidate in candidates.items():
        baseline = baselines.get(name)
        runs = [candidate, *([baseline] if isinstance(baseline, BenchmarkRun) else [])]
        (found.candidates[name], found.mine[name]), *rest = reader.read(runs)
        for run, side in rest:
            same = posixpath.normpath(run.job_dir) == posixpath.normpath(candidate.job_dir)
            unfit = f"is the very run that is judged, in {run.job_dir}" if same else ""
            found.baselines[name], found.theirs[name] = run, replace(side, unfit=unfit)
        if isinstance(baseline, Side):
            found.theirs[name] = baseline
    # a benchmark that only the baseline has: the gate has something to say about that
    found.theirs.update({name: Side("the baseline") for name in baselines if name not in candidates})
    return found


def _miss(compared: _Compared) -> None:
    """A benchmark that a baseline which was named does not have: no first night, but somebody's slip."""
    lacks = "has no result of this benchmark"
    for name in compared.mine.keys() - compared.theirs.keys():
        compared.theirs[name] = Side("the baseline that was named", no_rewards=lacks, unfit=lacks)


def _action(gate: GymGateOperator, outcome: Outcome) -> str:
    if outcome is Outcome.PASS:
        return "pass"
    setting = {
        Outcome.REGRESSED: gate.on_regressed,
        Outcome.INCONCLUSIVE: gate.on_inconclusive,
        Outcome.NO_BASELINE: gate.on_no_baseline,
    }[outcome]
    return "pass" if setting in ("accept", "pass_with_warning") else setting


def _push(context: Context, report: GateReport, compared: _Compared, action: str) -> None:
    ti: Any = context["ti"]
    benchmarks = {name: _benchmark_values(name, report, compared) for name in report.benchmarks}
    told = {"verdict": report.outcome.value, "sentence": report.sentence[:_LONGEST], "action": action}
    place = {"run_id": ti.run_id, "map_index": map_index(ti)}
    ti.xcom_push(key=xcom_keys.VERDICT, value=storable({**told, **place, "benchmarks": benchmarks}))
    good = (Outcome.PASS, Outcome.NO_BASELINE)
    green = [name for name in compared.candidates if report.of(name) in good]
    ti.xcom_push(key=xcom_keys.GATE_INDEX, value=index_values(context, green, fails=action == "fail"))


def _benchmark_values(name: str, report: GateReport, compared: _Compared) -> dict[str, Any]:
    verdicts, outcome = report.benchmarks[name], report.of(name)
    values: dict[str, Any] = {
        "verdict": outcome.value,
        "sentence": ". ".join(verdict.sentence for verdict in verdicts if verdict.outcome is outcome)[:_LONGEST],
        "metrics": {verdict.metric: verdict.values() for verdict in verdicts if verdict.metric != "*"},
    }
    baseline, candidate = compared.baselines.get(name), compared.candidates.get(name)
    if baseline is not None:
        values["baseline"] = {"label": baseline.label}
        if isinstance(baseline, BenchmarkRun):
            values["baseline"]["job_dir"] = baseline.job_dir
    if candidate is not None:
        # a later gate may ask for other metrics, so those that were not compared are kept as well
        names = dict.fromkeys([*(verdict.metric for verdict in verdicts), *headline(candidate.metrics, _METRICS_KEPT)])
        values["candidate"] = candidate.pointer(list(names)[:_METRICS_KEPT])
    return values
