"""Logs that are read on by a real bash: whole lines, no secret, no more than is asked for."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_gym_provider.config.hiding import worth_hiding
from airflow_gym_provider.slurm import tails
from airflow_gym_provider.slurm.remote import Frame, Frames, RemoteScript
from airflow_gym_provider.slurm.tails import (
    MOST_BYTES,
    MOST_CHARS,
    LogTail,
    TailNews,
    hidden_line,
    last_lines_body,
    read_tails,
    tails_body,
)

SECRETS = [
    "hf_S3cret!",
    "with 'quotes' \"and\" $HOME `id` \\ *",
    "-----BEGIN-----\nMIIabcdef\nshrt\n",
    "zähl-das",
    "a&b/c&d",
]


def look(tail: LogTail) -> TailNews | None:
    script = RemoteScript.build(tails_body({"7": tail}), needs=())
    done = subprocess.run(["bash", "-s"], input=script.text.encode(), capture_output=True, check=False)
    assert done.stderr == b""
    return read_tails({"7": tail}, script.frames(done.stdout.decode("utf-8", "replace"))).get("7")


@pytest.fixture
def tail(tmp_path: Path) -> LogTail:
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\nexit 0\n{hidden_line(SECRETS)}")
    return LogTail(str(tmp_path / "driver's $log.log"), str(tmp_path / "job.sh"))


def write(tail: LogTail, text: str | bytes, mode: str = "ab") -> None:
    with Path(tail.path).open(mode) as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def last(tail: LogTail, lines: int = 40) -> list[str]:
    paths = [tail.path, f"{tail.path}.absent"]
    script = RemoteScript.build(last_lines_body(paths, tail.job_script, lines), needs=())
    done = subprocess.run(["bash", "-s"], input=script.text.encode(), capture_output=True, check=False)
    assert done.stderr == b""
    return [frame.text for frame in script.frames(done.stdout.decode("utf-8", "replace")).named("last")]


def test_a_logs_end_comes_without_what_its_own_job_was_given(tail: LogTail) -> None:
    assert last(tail) == []
    write(tail, "one\ntwo hf_S3cret!\n\n" + SECRETS[1] + "\0|\nMIIabcdef *\nend")
    assert last(tail, 5) == [f"{tail.path}\ntwo ***\n\n*** |\n*** *\nend"]
    Path(tail.job_script).write_text("exit 0\n")  # as it was submitted without a secret
    assert last(tail, 1) == [f"{tail.path}\nend"]


def test_no_line_of_a_logs_end_is_the_rest_of_one_that_began_before(tail: LogTail) -> None:
    write(tail, "x" * 10_000 + "hf_S3cret!" * MOST_BYTES)
    assert last(tail) == [f"{tail.path}\n"]
    write(tail, "\nwhole\n")
    assert last(tail) == [f"{tail.path}\nwhole"]


def test_three_appends_are_three_chunks_in_order(tail: LogTail) -> None:
    assert look(tail) is None
    texts = []
    for number in range(3):
        write(tail, f"line {number}\n")
        news = look(tail)
        assert news is not None
        texts.append(news.text)
        tail = news.tail
        assert look(tail) is None
    assert texts == ["line 0", "line 1", "line 2"]


def test_half_a_line_and_half_a_character_wait_for_the_rest(tail: LogTail) -> None:
    write(tail, "whole\nzw")
    news = look(tail)
    assert news.text == "whole"
    assert news.tail.offset == 6
    write(tail, "ölf".encode()[:2])
    assert look(news.tail).text == ""
    write(tail, "ölf".encode()[2:] + b"\n")
    assert look(news.tail).text == "zwölf"


def test_secrets_leave_the_login_node_as_stars(tail: LogTail) -> None:
    write(tail, "token=hf_S3cret! hf_S3cret!x\nsaid with 'quotes' \"and\" $HOME `id` \\ * here\n")
    write(tail, 'json "with \'quotes\' \\"and\\" $HOME `id` \\\\ *"\nMIIabcdef\nshrt\nzähl-das a&b/c&d\n')
    assert look(tail).text == 'token=*** ***x\nsaid *** here\njson "***"\n***\nshrt\n*** ***'


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
@given(secret=st.text(st.characters(exclude_characters="\0\n\r", exclude_categories=["Cs"]), min_size=5, max_size=40))
def test_whatever_the_secret_is(tail: LogTail, secret: str) -> None:
    Path(tail.job_script).write_text(hidden_line([secret]))
    write(tail, f"before {secret} after\n", "wb")
    hidden = secret if not worth_hiding(secret) else "***"
    assert look(tail).text == f"before {hidden} after"


@pytest.mark.parametrize(
    "last", ["exit 0\n", "# hidden\n", "# hidden 2 \\x61 .\n", "# hidden 1 \\x61\n", "# hidden 1 $(id) .\n", ""]
)
def test_without_a_whole_list_of_secrets_nothing_is_shown(tail: LogTail, last: str) -> None:
    Path(tail.job_script).write_text(last)
    write(tail, "token=hf_S3cret!\n")
    assert look(tail) == TailNews(tail, refused=True)
    Path(tail.job_script).unlink()
    assert look(tail).refused


def test_of_a_burst_the_end_is_shown_and_how_much_is_left_out(tail: LogTail) -> None:
    write(tail, "".join(f"line {number}\n" for number in range(100_000)))
    news = look(tail)
    size = Path(tail.path).stat().st_size
    assert len(news.text) <= MOST_BYTES
    assert news.text.endswith("\nline 99999")
    assert news.text.startswith("line ")
    assert news.left_out + len(news.text) + 1 == size
    assert news.tail.offset == size


def test_a_line_without_an_end_is_never_shown_in_pieces(tail: LogTail) -> None:
    write(tail, "x" * (MOST_BYTES - 4) + "hf_S3")
    news = look(tail)
    assert (news.text, news.tail.skipping) == ("", True)
    write(tail, "cret! and more\nnext\n")
    news = look(news.tail)
    assert (news.text, news.tail.skipping) == ("next", False)


def test_a_long_line_is_cut_after_its_secrets_are_gone(tail: LogTail) -> None:
    write(tail, "y" * (MOST_CHARS - 5) + "hf_S3cret!" + "z" * 50 + "\n")
    text = look(tail).text
    assert "S3c" not in text
    assert text.endswith("more characters)")


def test_a_log_that_was_written_anew_is_read_from_its_beginning(tail: LogTail) -> None:
    write(tail, "first\n" * 5)
    news = look(tail)
    write(tail, "new\n", "wb")
    assert look(news.tail).text == "new"


def test_bytes_that_are_no_text_do_no_harm(tail: LogTail) -> None:
    write(tail, b"a\0b\xff\n\n@@0 end 0\n")
    assert look(tail).text == "a b\N{REPLACEMENT CHARACTER}\n\n@@0 end 0"


def test_an_answer_that_broke_off_is_read_again(tail: LogTail) -> None:
    script = RemoteScript.build(tails_body({"7": tail}), needs=())
    told = f"\n@@{script.nonce} tail 0 12 0 0\nline\nli"
    assert read_tails({"7": tail}, script.frames(told)) == {}
    assert tails_body({}) == ""


def test_a_log_that_hangs_is_read_again(tail: LogTail, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "dd").write_text("#!/bin/sh\nsleep 100\n")
    (tmp_path / "bin" / "dd").chmod(0o755)
    write(tail, "line\n")
    with monkeypatch.context() as hangs:
        hangs.setattr(tails, "FILE_SECONDS", 1)
        hangs.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        assert look(tail) is None
    news = look(tail)
    assert news is not None
    assert news.text == "line"


def test_of_what_was_killed_in_the_middle_the_last_log_is_left_out(tail: LogTail) -> None:
    frames = Frames([Frame("tail", ("0", "9", "0", "0"), "half a"), Frame("late", ("files", "60"), "")], complete=True)
    assert read_tails({"7": tail}, frames) == {}
    assert read_tails({"7": tail}, Frames(frames[:1], complete=True))["7"].text == "half a"


def test_a_log_of_which_no_place_is_told_has_no_news(tail: LogTail) -> None:
    frames = Frames([Frame("tail", ("0", "far", "0", "0"), "half a line"), Frame("end", ("0",), "")])
    assert read_tails({"job": tail}, frames) == {}
