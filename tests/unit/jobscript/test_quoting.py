from __future__ import annotations

import shlex
import subprocess

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from airflow_gym_provider.jobscript import quote
from airflow_gym_provider.jobscript.quoting import collector_yaml, heredoc_delimiter, quote_directive

from .texts import NASTY, TEXT

settings.load_profile("jobscript")


def _bash(script: str) -> bytes:
    # On standard input, as the steps of a job get theirs: one argument could not hold them all.
    return subprocess.run(["bash", "-s"], input=script.encode(), capture_output=True, check=True).stdout


@given(st.lists(TEXT, min_size=1, max_size=8))
@example(NASTY)
def test_a_quoted_text_reaches_a_program_byte_for_byte(texts: list[str]) -> None:
    words = " ".join(map(quote, texts))
    assert _bash(f"printf '%s\\0' {words}") == b"".join(text.encode() + b"\0" for text in texts)


@given(TEXT)
def test_a_quoted_text_stays_on_one_line(text: str) -> None:
    assert len(quote(text).splitlines()) == 1


@pytest.mark.parametrize("text", ["org/model", "a=b,c", "user@host:/x", "1.5", "x" * 9])
def test_plain_words_stay_readable(text: str) -> None:
    assert quote(text) == text


@pytest.mark.parametrize(("text", "told"), [("a\0b", "NUL"), ("\udc80", "UTF-8")])
def test_what_no_argument_can_hold_is_refused(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        quote(text)


def _sbatch_words(line: str) -> list[str]:
    """The words that sbatch's parser makes of a directive line (after its get_argument function, 22.05)."""
    words, at = [], 0
    while at < len(line):
        if line[at].isspace():
            at += 1
            continue
        word, quoted = "", ""
        while at < len(line) and (quoted or not line[at].isspace()):
            char = line[at]
            if char == "\\":
                at += 1
                word += line[at]
            elif quoted and char == quoted:
                quoted = ""
            elif not quoted and char in "'\"":
                quoted = char
            elif not quoted and char == "#":
                return [*words, word] if word else words
            else:
                word += char
            at += 1
        words.append(word)
    return words


@given(TEXT)
def test_a_directive_means_the_same_to_sbatch_and_to_a_shell(text: str) -> None:
    try:
        word = "--comment=" + quote_directive(text)
    except ValueError:
        assert any(ord(char) < 32 or 127 <= ord(char) < 160 or char in "\u2028\u2029" for char in text)
        return
    assert _sbatch_words(word) == shlex.split(word, comments=True) == [f"--comment={text}"]


@given(st.lists(TEXT, min_size=1, max_size=8))
@example(NASTY)
def test_a_text_in_the_collectors_yaml_is_read_back_by_yaml_after_the_shell(texts: list[str]) -> None:
    lines = "\n".join(f"- {collector_yaml(text)}" for text in texts)
    read = yaml.safe_load(_bash(f"cat <<END_OF_IT\n{lines}\nEND_OF_IT\n"))
    assert read == [text.replace("$", "$$") for text in texts]  # which the collector takes for one


@given(TEXT)
@example(NASTY[0])
@example("".join(NASTY))
def test_what_is_escaped_stays_so_in_every_character_set(text: str) -> None:
    """In GBK, Big5 and Shift-JIS a byte beyond ASCII and a backslash after it are one character."""
    word = quote(text)
    assert collector_yaml(text).isascii()
    assert word.isascii() or not any("'" in part for part in word[1:-1].split("'\\''"))
    assert word.isascii() or word[0] == word[-1] == "'"  # in which a backslash is nothing else


def test_a_delimiter_is_never_a_line_of_the_body() -> None:
    assert heredoc_delimiter("policy", "x\ny") == "END_POLICY"
    assert heredoc_delimiter("my policy", "END_MY_POLICY\nEND_MY_POLICY_2") == "END_MY_POLICY_3"
