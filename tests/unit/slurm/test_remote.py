"""The frames and the wrapper, run by a real bash: banners, cuts, hostile login environments, missing tools."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.slurm.remote import Answer, Frame, Frames, RemoteScript


def run(script: RemoteScript, text: str | None = None, **environ: str) -> Answer:
    done = subprocess.run(
        ["bash", "-s"],
        input=script.text if text is None else text,
        capture_output=True,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": "/nonexistent", **environ},
        timeout=60,
    )
    return Answer(done.returncode, done.stdout, done.stderr)


def body(text: str, **options: object) -> RemoteScript:
    return RemoteScript.build(text, needs=(), **options)  # type: ignore[arg-type]


def tool(folder: Path, name: str, lines: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/bash\n{lines}\n")
    path.chmod(0o755)


def test_frames_hold_exactly_what_was_printed() -> None:
    script = body("frame one a b\nprintf 'x\\n\\ny'\nframe two\nframe three\necho last")
    frames = script.frames(run(script).stdout)
    assert list(frames) == [Frame("one", ("a", "b"), "x\n\ny"), Frame("two", (), ""), Frame("three", (), "last\n")]
    assert frames.complete
    assert frames.error is None
    assert frames.named("one")[0].arg(1) == "b"
    assert frames.named("one")[0].arg(2, "none") == "none"


def test_banners_before_between_and_after_do_not_shift_frames() -> None:
    script = body("frame one\necho text")
    told = run(script).stdout
    frames = script.frames(f"Welcome\n@@other one\n{told}Goodbye\n\n@@{script.nonce} late\nx")
    assert list(frames) == [Frame("one", (), "text\n")]
    assert frames.complete


def test_line_ends_of_a_terminal_are_understood() -> None:
    script = body("frame one a\necho text")
    frames = script.frames(run(script).stdout.replace("\n", "\r\n"))
    assert (frames[0].name, frames[0].args, frames[0].text.strip()) == ("one", ("a",), "text")
    assert frames.complete


def test_a_body_that_returns_is_complete_and_one_that_exits_is_not() -> None:
    returned, exited = body("frame one\nreturn 3\nframe two"), body("frame one\nexit 3")
    assert returned.frames(run(returned).stdout).complete
    assert not exited.frames(run(exited).stdout).complete


def test_a_script_cut_anywhere_runs_nothing(tmp_path: Path) -> None:
    script = body(f"echo ran >> {tmp_path}/ran")
    whole = len(script.text.rstrip("\n")) - len(" 3<&0 </dev/null; exit")
    for end in [*range(0, whole - 60, 97), *range(whole - 60, whole)]:
        run(script, script.text[:end])
        assert not (tmp_path / "ran").exists(), script.text[end - 30 : end]
    run(script)
    assert (tmp_path / "ran").read_text() == "ran\n"


@given(st.integers(0, 2000), st.text())
def test_a_cut_answer_gives_the_first_frames_and_is_not_complete(end: int, noise: str) -> None:
    script = body("")
    mark = f"\n@@{script.nonce} "
    told = f"{mark}begin\n{mark}one a\nfirst\n{mark}two\nsecond\n{mark}end 0\n"
    end = min(end, len(told) - 2)
    frames = script.frames(told[:end])
    assert not frames.complete
    whole = script.frames(told)
    assert [frame.name for frame in frames] == [frame.name for frame in whole][: len(frames)]
    assert frames[:-1] == whole[: len(frames) - 1] if frames else True
    script.frames(noise)  # never raises


def test_the_payload_is_on_descriptor_3_and_standard_input_is_empty() -> None:
    script = body("frame in\ncat\nframe payload\ncat <&3\nframe after", payload="$(touch x)\nlines\n")
    frames = script.frames(run(script).stdout)
    assert [frame.text for frame in frames] == ["", "$(touch x)\nlines\n", ""]
    assert frames.complete


def test_framed_gives_both_streams_and_the_status() -> None:
    script = body(
        "framed tool 7 5 sh -c 'echo out; echo err >&2; exit 3'\nframed slow 8 0.2 sleep 9\nframed gone 9 5 /no/such"
    )
    frames = script.frames(run(script).stdout)
    assert frames[:2] == [Frame("tool", ("7",), "out\n"), Frame("tool.end", ("7", "3"), "err\n")]
    assert [frame.args for frame in frames.named("slow.end") + frames.named("gone.end")] == [("8", "124"), ("9", "127")]


def test_formats_and_filters_of_the_login_environment_are_gone() -> None:
    hostile = dict.fromkeys(
        [
            "SQUEUE_FORMAT",
            "SQUEUE_STATES",
            "SACCT_FORMAT",
            "SBATCH_PARTITION",
            "SLURM_CLUSTERS",
            "SLURM_JOB_ID",
            "SCANCEL_NAME",
        ],
        "x",
    )
    script = body(
        "frame env\nenv | cut -d= -f1 | grep -E '^(S[A-Z]+)_' | sort\nframe time\necho $SLURM_TIME_FORMAT $LC_ALL"
    )
    frames = script.frames(
        run(script, SLURM_CONF="/etc/x.conf", SLURM_TIME_FORMAT="relative", LC_ALL="de_DE", **hostile).stdout
    )
    assert frames[0].text.split() == ["SLURM_CONF", "SLURM_TIME_FORMAT"]
    assert frames[1].text == "standard C\n"


@pytest.mark.parametrize(("given", "seen"), [({"LC_ALL": "C.UTF-8"}, "C.UTF-8"), ({}, "none"), ({"LC_ALL": ""}, "")])
def test_sbatch_gets_the_login_language_back(given: dict[str, str], seen: str) -> None:
    script = body("frame env\nas_login sh -c 'echo ${LC_ALL-none},${SLURM_TIME_FORMAT-none}'")
    assert script.frames(run(script, **given).stdout)[0].text == f"{seen},none\n"


def test_exported_functions_do_not_replace_tools_but_module_stays() -> None:
    script = body("frame one\nwc -l </dev/null\nframe two\nmodule")
    functions = {"BASH_FUNC_wc%%": "() { echo hijacked; }", "BASH_FUNC_module%%": "() { echo module; }"}
    frames = script.frames(run(script, **functions).stdout)
    assert [frame.text.strip() for frame in frames] == ["0", "module"]


BASH_ENV = """\
shopt -s expand_aliases nocasematch failglob xpg_echo
IFS=,
function unset { /bin/echo hijacked; }; function set { /bin/echo hijacked; }; function [ { /bin/echo hijacked; }
trap 'echo hijacked' DEBUG; trap 'echo hijacked' EXIT
cd /; echo "from BASH_ENV"
set -euo pipefail; set -f; set -C
alias printf='echo alias' local='echo' return='exit 3' squeue='echo alias' rm='rm -i' wc='echo alias'
"""
SHELLOPTS = "braceexpand:errexit:nounset:xtrace:verbose:noglob:noclobber:posix:pipefail"
HIJACKED = "() { /bin/echo hijacked; }"
HOSTILE = {
    "BASH_ENV": {},
    "functions": {
        f"BASH_FUNC_{name}%%": HIJACKED
        for name in "unset set shopt unalias [ : . cd printf echo local export type eval return trap test wc mv".split()  # noqa: SIM905
    },
    "options": {"SHELLOPTS": SHELLOPTS, "BASHOPTS": "expand_aliases:failglob:nocasematch", "IFS": ":"},
    "POSIX": {"POSIXLY_CORRECT": "1", "_POSIX2_VERSION": "1", "CDPATH": "/usr", "TAR_OPTIONS": "--help", "GZIP": "-q"},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_whatever_a_login_environment_switches_on_the_script_runs_as_it_was_written(tmp_path: Path, kind: str) -> None:
    environ = dict(HOSTILE[kind])
    if kind == "BASH_ENV":
        (tmp_path / "start-up").write_text(BASH_ENV)
        environ["BASH_ENV"] = str(tmp_path / "start-up")
    lines = """
frame said one two
found=(/etc/host*) secret=CANARY
wc -l </dev/null && printf '%q\\n' "$IFS" && echo "${#found[@]}" "$_gym_no_such_variable"
[ -n "$secret" ] && echo yes
false
false | true
cd /tmp && pwd
frame next"""
    expected = run(body(lines))
    done = run(script := body(lines), **environ)
    frames = script.frames(done.stdout)
    assert frames == script_frames(expected.stdout)
    assert (frames.complete, done.returncode) == (True, 0)
    assert "CANARY" not in done.stderr


def script_frames(stdout: str) -> Frames:
    """The frames, whatever the nonce."""
    return RemoteScript("", stdout.partition("@@")[2].split()[0]).frames(stdout)


def test_no_builtin_of_this_bash_can_be_replaced_by_an_exported_function() -> None:
    builtins = subprocess.run(["bash", "-c", "compgen -b"], capture_output=True, text=True, check=True).stdout.split()
    script = body("frame left\ncompgen -A function")
    left = script.frames(run(script, **{f"BASH_FUNC_{name}%%": HIJACKED for name in builtins}).stdout)[0].text.split()
    assert not set(builtins) & set(left)


def test_a_missing_slurm_is_an_error_that_names_the_setting() -> None:
    script = RemoteScript.build("frame never", needs=("no-such-squeue",))
    frames = script.frames(run(script).stdout)
    assert frames.complete
    assert not frames.named("never")
    assert "slurm_bin" in str(frames.error)
    assert "no-such-squeue" in str(frames.error)


def test_slurm_bin_comes_first_on_the_path(tmp_path: Path) -> None:
    tool(tmp_path / "my bin", "squeue", "echo mine")
    script = RemoteScript.build("frame one\nsqueue", slurm_bin=f"{tmp_path}/my bin", needs=("squeue",))
    assert script.frames(run(script).stdout)[0].text == "mine\n"


def test_login_start_up_files_are_asked_and_cannot_spoil_the_script(tmp_path: Path) -> None:
    tool(tmp_path / "slurm", "no-such-squeue", "echo found $SLURM_CONF")
    (tmp_path / ".bash_profile").write_text(
        f"echo banner; read answer; frame() {{ :; }}\nexport PATH=$PATH:{tmp_path}/slurm SLURM_CONF='/a b'; set -e"
    )
    script = RemoteScript.build("frame one\nno-such-squeue", login_profile=True, needs=("no-such-squeue",))
    frames = script.frames(run(script, HOME=str(tmp_path)).stdout)
    assert [frame.text for frame in frames] == ["found /a b\n"]


def test_a_start_up_file_that_exits_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / ".profile").write_text("exit 3")
    script = body("frame one\necho here", login_profile=True)
    assert script.frames(run(script, HOME=str(tmp_path)).stdout)[0].text == "here\n"


@given(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=60))
def test_no_slurm_bin_breaks_out_of_its_quotes(folder: str) -> None:
    script = RemoteScript.build("", slurm_bin=folder, needs=())
    assert subprocess.run(["bash", "-n"], input=script.text, text=True, capture_output=True).returncode == 0


def test_frames_are_a_list_of_their_own() -> None:
    assert Frames().complete is False
    assert Frames([Frame("error", ("x",), " broken \n")], complete=True).error == "broken"


def test_what_hangs_aside_is_killed_with_all_it_started_and_the_rest_goes_on(tmp_path: Path) -> None:
    tool(tmp_path, "hangs", f"echo $$ >{tmp_path}/pid; trap '' TERM; sleep 1000; sleep 1000")
    script = body(
        f"slow() {{ frame half; echo said; {tmp_path}/hangs | cat; frame never; }}\n"
        "fast() { frame whole; echo $1; }\n"
        "aside x 5 fast one\naside y 1 slow\naside y 1 fast two\naside x 5 fast three",
        stays=True,
    )
    frames = script.frames(run(script).stdout)
    assert [(frame.name, *frame.args, frame.text) for frame in frames] == [
        ("whole", "one\n"),
        ("half", "said\n"),
        ("late", "y", "1", ""),
        ("late", "y", "1", ""),  # not tried again so soon
        ("whole", "three\n"),
    ]
    assert frames.complete
    left = Path("/proc", (tmp_path / "pid").read_text().strip(), "cmdline")
    assert not left.exists() or not left.read_bytes(), "it is gone, or dead and waits for somebody to notice"


def test_no_script_needs_a_place_for_temporary_files() -> None:
    """Bash before 5.1 writes here-documents and here-strings to one, and it may be full."""
    for path in (Path(__file__).parents[3] / "airflow_gym_provider").glob("**/*.sh"):
        assert not re.search(r"<<-?['\"A-Z]|<<<", path.read_text()), path
