"""What is told, to whom, and what is not: over real notifiers of Airflow and a real HTTP server."""

import asyncio
import json
import logging
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import ClassVar

import pytest
from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.xcom import XCom

from airflow_gym_provider.exceptions import ChainRetry, ChainStopped, SlurmUnreachableError
from airflow_gym_provider.notifications.gym import GymNotifier
from airflow_gym_provider.operators._config import mask

PLACE = {"benchmark": "gpqa", "job_id": "60", "run_dir": "/scratch/run", "logs": "/scratch/run/gpqa/logs"}


class Told(BaseNotifier):
    """A notifier with a template, as those of Slack and SMTP are."""

    template_fields = ("text",)
    sent: ClassVar[list[str]] = []

    def __init__(self, text="{{ gym.text }}", **kwargs):
        super().__init__(**kwargs)
        self.text = text

    def notify(self, context):
        self.sent.append(self.text)


class ToldAsync(Told):
    template_fields = ("text",)

    def notify(self, context):
        raise AssertionError("the asynchronous form was asked for")

    async def async_notify(self, context):
        self.sent.append(self.text)


@pytest.fixture
def sent():
    Told.sent.clear()
    return Told.sent


@pytest.fixture
def logged(caplog, capfd):
    """All that was logged: by Airflow's loggers, which print here, and by libraries' own."""
    caplog.set_level(logging.DEBUG)

    def text():
        printed = capfd.readouterr()
        return caplog.text + printed.out + printed.err

    return text


@pytest.fixture
def xcoms(monkeypatch):
    values = {"gym_job": PLACE}
    monkeypatch.setattr(XCom, "get_value", lambda *, ti_key, key: values.get(key))
    monkeypatch.setenv(
        "AIRFLOW_CONN_EOS",
        json.dumps({"conn_type": "slurm", "host": "eos", "extra": {"files_url": "https://ood.edu/fs{path}"}}),
    )
    return values


def context(exception=None, state="failed", map_index=-1):
    ti = SimpleNamespace(
        dag_id="nightly",
        run_id="scheduled__1",
        task_id="eval",
        map_index=map_index,
        try_number=2,
        state=state,
        log_url="https://airflow.edu/dags/nightly/runs/scheduled__1/tasks/eval?try_number=2",
    )
    return {"ti": ti, "task": SimpleNamespace(ssh_conn_id="eos"), "exception": exception, "dag": None}


def test_a_chain_that_stopped(sent, xcoms):
    reason = (
        "gpqa: FAILED 1:0; 97 of 100 rollouts in /scratch/run/gpqa/rollouts.jsonl. Logs and results: /scratch/run/gpqa"
    )
    GymNotifier(Told())(context(ChainStopped(reason)))
    assert sent == [
        f"gpqa stopped: {reason}\n"
        "nightly, run scheduled__1, task eval, try 2\n"
        "Airflow: https://airflow.edu/dags/nightly/runs/scheduled__1/tasks/eval?try_number=2\n"
        "Run directory: https://ood.edu/fs/scratch/run\n"
        "Driver log: https://ood.edu/fs/scratch/run/gpqa/logs/driver-60.log\n"
        "Job record: https://ood.edu/fs/scratch/run/gym-job.json"
    ]


@pytest.mark.parametrize(
    "verdict",
    [
        {"verdict": "regressed", "benchmarks": 5},
        {"verdict": "regressed", "benchmarks": [None, {"verdict": "regressed"}]},
        {"benchmarks": {"a": None, "gpqa": {"verdict": "regressed", "sentence": 5, "metrics": [1]}}},
        {"benchmarks": {"gpqa": {"verdict": "regressed", "metrics": {"m": {"candidate": 10**400}, "n": True}}}},
    ],
)
def test_a_verdict_of_another_release_is_told_all_the_same(sent, xcoms, verdict):
    xcoms["gym_verdict"] = verdict
    GymNotifier(Told("{{ gym.event }} {{ gym.metrics }}"))(context(AirflowFailException("the gate failed")))
    assert sent == ["regressed {}"]


def test_a_chain_that_was_resumed(sent, xcoms):
    reason = "TIMEOUT after 4:00:00; 12:00:00 of 48:00:00 used; resuming"
    GymNotifier(Told("{{ gym.title }} [{{ gym.map_index }}]"))(context(ChainRetry(reason), "up_for_retry", 3))
    assert sent == [f"gpqa resumed: {reason} [3]"]


def test_a_gate_that_says_regressed_whatever_its_task_does(sent, xcoms):
    xcoms["gym_verdict"] = {
        "verdict": "regressed",
        "benchmark": "aime25",
        "reason": "mean/reward fell from 0.81 to 0.78 (p = 0.003, 400 tasks)",
        "metrics": {"mean/reward": 0.78},
    }
    told = GymNotifier(Told("{{ gym.text }}"))
    told(context(AirflowFailException("the gate failed")))
    told(context(None, "success"))
    told(context(None, "skipped"))
    assert len(sent) == 3
    first = "aime25 regressed: mean/reward fell from 0.81 to 0.78 (p = 0.003, 400 tasks)\nmean/reward = 0.78\n"
    assert all(text.startswith(first) for text in sent)


def test_a_gate_over_several_benchmarks_names_those_that_regressed(sent, xcoms):
    """In the form of GymGateOperator."""
    fell = {"verdict": "regressed", "sentence": "fell", "metrics": {"mean/reward": {"baseline": 0.8, "candidate": 0.7}}}
    verdict = {"verdict": "regressed", "sentence": "aime25 fell from 0.8 to 0.7", "action": "fail", "run_id": "r"}
    xcoms["gym_verdict"] = verdict | {"benchmarks": {"gpqa": {"verdict": "pass"}, "aime25": fell}}
    told = GymNotifier(Told("{{ gym.benchmark }}: {{ gym.reason }} {{ gym.metrics }}"))
    told(context(AirflowFailException("regressed: aime25 fell from 0.8 to 0.7")))
    xcoms["gym_verdict"]["benchmarks"]["gpqa"] = fell
    told(context(None, "success"))
    assert sent[0] == "aime25: aime25 fell from 0.8 to 0.7 {'mean/reward': 0.7}"
    assert sent[1].startswith("gpqa, aime25: aime25 fell from 0.8 to 0.7 ")


def test_a_verdict_without_a_sentence_of_its_own(sent, xcoms):
    xcoms["gym_verdict"] = {"benchmarks": [{"benchmark": "aime25", "verdict": "regressed", "reason": "aime25 fell"}]}
    GymNotifier(Told("{{ gym.benchmark }}: {{ gym.reason }}"))(context(None, "success"))
    assert sent == ["aime25: aime25 fell"]


@pytest.mark.parametrize(
    ("exception", "state", "verdict"),
    [
        (None, "success", None),
        (None, "success", {"verdict": "pass"}),
        (None, "success", {"verdict": "inconclusive"}),
        (ChainRetry("a submit limit is reached", passing=True), "up_for_retry", None),
        (SlurmUnreachableError("the login node is away"), "up_for_retry", None),
    ],
)
def test_no_news(sent, xcoms, exception, state, verdict):
    xcoms["gym_verdict"] = verdict
    GymNotifier(Told())(context(exception, state))
    assert sent == []


def test_only_the_events_that_are_asked_for(sent, xcoms):
    told = GymNotifier(Told("{{ gym.event }}"), events=["stopped"])
    told(context(ChainRetry("resuming"), "up_for_retry"))
    told(context(ChainStopped("over")))
    assert sent == ["stopped"]
    with pytest.raises(ValueError, match="finished"):
        GymNotifier(Told(), events=["finished"])


def test_counts_and_metrics_of_a_result(sent, xcoms):
    xcoms["return_value"] = PLACE | {"rollouts_done": 3, "rollouts_expected": 4, "metrics": {"mean/reward": 0.25}}
    xcoms["gym_verdict"] = {"verdict": "regressed", "reason": "it fell"}
    GymNotifier(Told())(context())
    assert sent[0].splitlines()[:3] == ["gpqa regressed: it fell", "3 of 4 rollouts", "mean/reward = 0.25"]


def test_an_exception_that_nobody_foresaw_is_not_quoted(sent, xcoms):
    GymNotifier(Told())(context(KeyError("swordfish")))
    assert sent[0].startswith("gpqa stopped: unexpected KeyError, see the log\n")
    assert "swordfish" not in sent[0]


def test_before_there_is_a_job(sent, xcoms):
    xcoms.clear()
    GymNotifier(Told())(context(AirflowFailException("The submit config cannot be used:\n  - job: is required")))
    assert sent[0].startswith("eval stopped: The submit config cannot be used:\n  - job: is required\nnightly, run")


@pytest.mark.parametrize(
    ("benchmark", "name"), [("gpqa", "gpqa"), ("{{ params.b }}", "eval"), (None, "eval"), (5, "eval")]
)
def test_before_there_is_a_job_it_is_called_by_the_benchmark_that_is_asked_for(sent, xcoms, benchmark, name):
    xcoms.clear()
    told = context(AirflowFailException("The submit config cannot be used:\n  - job: is required\n  - a: b"))
    told["task"].benchmark = benchmark
    GymNotifier(Told("{{ gym.title }}"))(told)
    assert sent == [f"{name} stopped: The submit config cannot be used: job: is required"]


def test_a_notifier_that_fails_neither_fails_the_task_nor_keeps_the_next_from_its_turn(sent, xcoms, logged):
    class Broken(BaseNotifier):
        def notify(self, context):
            raise OSError("https://hooks.example/swordfish")

    GymNotifier([Broken(), Told()])(context(ChainStopped("over")))
    assert len(sent) == 1
    assert "(Broken): OSError" in logged()


def test_it_may_be_used_again(sent, xcoms):
    told = GymNotifier(Told("{{ gym.reason }}"))
    told(context(ChainStopped("first")))
    told(context(ChainStopped("second")))
    assert sent == ["first", "second"]


async def test_the_asynchronous_form(sent, xcoms):
    notifier = GymNotifier([Told("sync {{ gym.event }}"), ToldAsync("async {{ gym.event }}")])
    notifier.context = context(ChainStopped("over"))
    await notifier
    assert sent == ["sync stopped", "async stopped"]


def test_nobody_to_tell():
    with pytest.raises(ValueError, match="nobody to tell"):
        GymNotifier()


@pytest.fixture
def hook(monkeypatch):
    """An HTTP server that takes webhooks, and what it got."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            got.append((self.path, dict(self.headers), body))
            self.send_response(403 if "refuse" in self.path else 200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def connect(**values):
        given = {"conn_type": "http", "schema": "http", "host": "127.0.0.1", "port": server.server_port}
        monkeypatch.setenv("AIRFLOW_CONN_CHAT", json.dumps(given | values))

    connect()
    yield SimpleNamespace(got=got, connect=connect)
    server.shutdown()
    server.server_close()


@pytest.mark.parametrize("way", ["sync", "async"])
def test_a_webhook_gets_the_message_as_json(hook, xcoms, way):
    hook.connect(password="T0/B0/swordfish", extra={"endpoint": "/services", "headers": {"X-From": "airflow"}})
    notifier = GymNotifier(webhook_conn_id="chat")
    given = context(ChainStopped("gpqa: over"))
    if way == "sync":
        notifier(given)
    else:
        asyncio.run(notifier.async_notify(given))
    [(path, headers, body)] = hook.got
    assert path == "/services/T0/B0/swordfish"
    assert headers["X-From"] == "airflow"
    assert body["event"] == "stopped"
    assert body["text"].startswith("gpqa stopped: gpqa: over\n")
    assert body["links"]["Run directory"] == "https://ood.edu/fs/scratch/run"


def test_nothing_in_a_message_is_a_command_of_a_chat(hook, xcoms):
    GymNotifier(webhook_conn_id="chat")(context(ChainStopped("<!channel> <https://evil.example|Airflow> 1 < 2 <@U1>")))
    [(_, _, body)] = hook.got
    assert "‹!channel> ‹https://evil.example|Airflow> 1 < 2 ‹@U1>" in body["text"]
    assert not re.search("<[!@#a-z]", body["text"] + body["title"])
    assert body["reason"] == "<!channel> <https://evil.example|Airflow> 1 < 2 <@U1>"


@pytest.mark.parametrize("way", ["notifier", "webhook"])
@pytest.mark.parametrize(
    "bad",
    ["@everyone", "x@everyone", "@Channel", "@here", "@somebody", "[click](http://evil)", "![](http://x)", "[a][b]"],
)
def test_no_room_is_called_and_no_link_is_hidden(hook, sent, xcoms, way, bad):
    """Whichever chat it goes to: Slack, Discord, Mattermost and their likes differ in what they read."""
    told = context(ChainStopped(f"gpqa: {bad} is in a log"))
    if way == "webhook":
        GymNotifier(webhook_conn_id="chat")(told)
        [(_, _, body)] = hook.got
        texts = [body["title"], body["text"]]
        assert bad in body["reason"]
    else:
        GymNotifier(Told())(told)
        texts = sent
    for text in texts:
        assert bad not in text
        assert bad in text.replace("\u200b", "")


def test_addresses_and_metrics_stay_what_they_are(sent, xcoms):
    reason = "gpqa: me@example.edu, sftp://me@here.example.edu/x, pass@1[avg-of-4] and 1 < 2"
    GymNotifier(Told())(context(ChainStopped(reason)))
    assert reason in sent[0]
    assert "\u200b" not in sent[0]


def test_what_is_sent_is_without_the_secrets_that_airflow_knows(hook, sent, xcoms):
    secret = 'it\'s a "canary-6b1d"\nand canary-9e2f'
    mask([secret])
    error = ChainStopped(f"gpqa: sbatch says {secret} and {secret!r}")
    GymNotifier(Told(), webhook_conn_id="chat")(context(error))
    [(_, _, body)] = hook.got
    assert body["reason"].startswith("gpqa: sbatch says ***")
    assert "canary" not in json.dumps(body) + "".join(sent)


def test_a_login_is_for_basic_authentication(hook, xcoms):
    hook.connect(login="me", password="swordfish")
    GymNotifier(webhook_conn_id="chat")(context(ChainStopped("over")))
    [(path, headers, _)] = hook.got
    assert path == "/"
    assert headers["Authorization"].startswith("Basic ")


@pytest.mark.parametrize("way", ["sync", "async"])
@pytest.mark.parametrize(
    "broken", [{"password": "refuse-swordfish"}, {"port": 1, "password": "swordfish"}, {"host": ""}]
)
def test_a_webhook_that_does_not_take_it_is_only_in_the_log_and_without_its_address(hook, xcoms, way, broken, logged):
    hook.connect(**broken)
    notifier = GymNotifier(webhook_conn_id="chat")
    given = context(ChainStopped("over"))
    if way == "sync":
        notifier(given)
    else:
        asyncio.run(notifier.async_notify(given))
    text = logged()
    assert "connection 'chat'" in text
    assert "swordfish" not in text
