from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_gym_provider.config import SubmitConfigError
from airflow_gym_provider.jobscript import quote
from airflow_gym_provider.jobscript.flags import drop_flags, join_flags, split_flags

from .texts import TEXT

settings.load_profile("jobscript")


def _words(text: str, cwd: Path | None = None) -> list[str]:
    """The arguments that a program gets from `text` as the tail of a command line."""
    script = f"HOME=/users/me\nprintf '%s\\0' {join_flags(split_flags(text, 'extra_args'))}"
    done = subprocess.run(["bash", "-s"], input=script.encode(), capture_output=True, check=True, cwd=cwd)
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--max-model-len 8192 --enable-prefix-caching", ["--max-model-len", "8192", "--enable-prefix-caching"]),
        ("""--hf-overrides '{"a": {"b": [1, "c d"]}}'""", ["--hf-overrides", '{"a": {"b": [1, "c d"]}}']),
        ('--x "a \\"b\\" $HOME" c\\ d', ["--x", 'a "b" /users/me', "c d"]),
        ("--one 1\n--two 2 # a remark\n\t--three \\\n 3\n", ["--one", "1", "--two", "2", "--three", "3"]),
        (
            "--stop ; rm -rf / & x | y > z < (a)",
            ["--stop", ";", "rm", "-rf", "/", "&", "x", "|", "y", ">", "z", "<", "(a)"],
        ),
        ('--origins ["*"] *?', ["--origins", "[*]", "*?"]),
        ("--n $(echo 1 2; echo '(3)') `echo 4` ${HOME} $'a\\nb'", ["--n", "1", "2", "(3)", "4", "/users/me", "a\nb"]),
        ('--cost "5 $\'s" a#b', ["--cost", "5 $'s", "a#b"]),
        ("--json '{\n  \"a\": 1\n}'", ["--json", '{\n  "a": 1\n}']),
    ],
)
def test_words_reach_the_program_as_a_shell_reads_them_and_as_one_command(
    text: str, words: list[str], tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    assert _words(text, tmp_path) == words


@given(st.lists(TEXT, min_size=1, max_size=6))
def test_quoted_words_survive(texts: list[str]) -> None:
    assert _words(" ".join(map(quote, texts))) == texts


@given(st.text(st.sampled_from("ab -=\"'\\\n#;&|()<>*?{}[],:é"), max_size=25))
def test_any_text_is_either_refused_or_the_arguments_of_one_command(text: str) -> None:
    try:
        words = split_flags(text, "extra_args")
    except SubmitConfigError:
        return
    script = f"printf x {join_flags(words)}\necho -n done"
    done = subprocess.run(["bash", "-s"], input=script.encode(), capture_output=True, check=False)
    assert done.stdout.endswith(b"done") and done.returncode == 0


@pytest.mark.parametrize(
    "text", ["--a 'open", '--a "open', "--a $(open", "--a ${open", "--a `open", "--a \\", "--a $'open"]
)
def test_what_is_never_closed_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(SubmitConfigError, match=r"services\.policy\.extra_args: .*(never closed|lone backslash)"):
        split_flags(text, "services.policy.extra_args")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("--api-server-count 4 --a 1", "--a 1"),
        ("--a --api-server-count=4", "--a"),
        ("--api_server_count '4' --b", "--b"),
        ("--include-dashboard --b c", "--b c"),
        ("--b --api-server-counter 4", "--b --api-server-counter 4"),
    ],
)
def test_flags_are_dropped_with_their_values(text: str, left: str) -> None:
    dropped = ("--api-server-count", "--include-dashboard")
    assert join_flags(drop_flags(split_flags(text, "x"), dropped)) == left
