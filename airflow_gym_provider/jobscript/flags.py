"""Raw command-line text such as `extra_args`: split into words as bash would, kept as its author wrote it.

`extra_args` is appended to a command verbatim, so quotes, ``$VAR`` and ``$(…)`` in it work as in a shell. It is one
command's arguments all the same: a line break between words is a blank, a comment is dropped, and an unquoted
``; & | < > ( ) * ? [`` is a character of its word, never a second command, a redirection or a pattern for file names.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from airflow_gym_provider.config import Problem, SubmitConfigError
from airflow_gym_provider.config.fields import shown
from airflow_gym_provider.jobscript.quoting import MAX_WORD_BYTES

_LITERAL = ";&|<>()*?["


@dataclass(frozen=True)
class RawWord:
    """One word: `raw` is what to put into the script, `value` the same without quotes (expansions are left as text)."""

    raw: str
    value: str


def split_flags(text: str, place: str) -> list[RawWord]:
    """The words of `text`. Raises SubmitConfigError naming `place` when a quote or a substitution is never closed, and
    for a word that is longer than an argument may be or that sbatch would not take in a script.
    """
    try:
        words = list(_Scanner(text).words())
    except ValueError as error:
        told = f"{error} in {shown(text)}; it is read as a shell would read it, so close it or put it in quotes"
        raise SubmitConfigError([Problem(place, told)]) from None
    faults = [fault for word in words if (fault := _fault(word))]
    if faults:
        raise SubmitConfigError(Problem(place, fault) for fault in faults)
    return words


def _fault(word: RawWord) -> str | None:
    if "\r\n" in word.raw:
        return "holds a DOS line break (\\r\\n) in quotes, and sbatch takes no script with one; end lines with \\n"
    size = len(word.value.encode())
    if size > MAX_WORD_BYTES:
        return f"one word has {size} bytes and Linux passes at most {MAX_WORD_BYTES} in an argument; use a file"
    return None


def join_flags(words: Collection[RawWord]) -> str:
    """The words as text for a command line."""
    return " ".join(word.raw for word in words)


def drop_flags(words: Collection[RawWord], names: Collection[str]) -> list[RawWord]:
    """`words` without the flags in `names` and their values, written as ``--flag value`` or ``--flag=value``.

    Underscores count as dashes, as in vLLM's and Ray's own parsers.
    """
    kept: list[RawWord] = []
    value_of_dropped = False
    for word in words:
        if value_of_dropped and not word.value.startswith("-"):
            value_of_dropped = False
            continue
        name, equals, _ = word.value.partition("=")
        dropped = name.startswith("-") and name.replace("_", "-") in names
        value_of_dropped = dropped and not equals
        if not dropped:
            kept.append(word)
    return kept


class _Scanner:
    """Walks over shell text once; `at` is the position, errors are ValueErrors about the text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def words(self) -> Iterator[RawWord]:
        while self._skip_blanks():
            yield self._word()

    def _skip_blanks(self) -> bool:
        """Move to the next word; False at the end."""
        blank = re.compile(r"(?:[ \t\r\n]|\\\n|#[^\n]*)*")
        found = blank.match(self.text, self.at)
        self.at = found.end() if found else self.at
        return self.at < len(self.text)

    def _word(self) -> RawWord:
        raw: list[str] = []
        value: list[str] = []
        while self.at < len(self.text) and self.text[self.at] not in " \t\r\n":
            piece, meaning = self._piece()
            raw.append(piece)
            value.append(meaning)
        return RawWord("".join(raw), "".join(value))

    def _piece(self) -> tuple[str, str]:
        """The next quoted string, substitution, escape or character: (as written, without its quotes)."""
        char = self.text[self.at]
        if char == "'":
            piece = self._until("'", "a single quote")
            return piece, piece[1:-1]
        if char == '"':
            piece = self._double_quoted()
            return piece, re.sub(r'\\([$`"\\])', r"\1", piece[1:-1])
        if char == "\\":
            return self._escaped()
        if char in "$`":
            piece = self._substitution()
            return piece, piece
        self.at += 1
        # Not by a backslash: after a byte beyond ASCII it may be half of a character to bash, as `quote` explains.
        return (f"'{char}'" if char in _LITERAL else char), char

    def _escaped(self) -> tuple[str, str]:
        piece = self.text[self.at : self.at + 2]
        if len(piece) < 2:
            raise ValueError("it ends with a lone backslash")
        self.at += 2
        if piece == "\\\n":
            return "", ""
        return ('"\'"' if piece[1] == "'" else f"'{piece[1]}'"), piece[1]

    def _until(self, close: str, what: str) -> str:
        end = self.text.find(close, self.at + 1)
        if end < 0:
            raise ValueError(f"{what} is never closed")
        piece = self.text[self.at : end + 1]
        self.at = end + 1
        return piece

    def _double_quoted(self) -> str:
        start = self.at
        self.at += 1
        self._nested('"', "a double quote")
        return self.text[start : self.at]

    def _substitution(self) -> str:
        """``$name``, ``${…}``, ``$(…)``, ``$'…'``, a pair of backticks, or a lone dollar."""
        start = self.at
        if self.text[start] == "`":
            self.at += 1
            self._nested("`", "a backtick")
        elif self.text.startswith(("$(", "${"), start):
            self.at += 2
            self._nested(")" if self.text[start + 1] == "(" else "}", f"'{self.text[start : start + 2]}'")
        elif self.text.startswith("$'", start):
            found = re.compile(r"\$'(?:[^'\\]|\\.)*'", re.DOTALL).match(self.text, start)
            if not found:
                raise ValueError("a single quote is never closed")
            self.at = found.end()
        else:
            self.at += 1
        return self.text[start : self.at]

    def _nested(self, close: str, what: str) -> None:
        """Move behind the matching `close`, over whatever is quoted or substituted inside."""
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == close:
                self.at += 1
                return
            if char == "(" and close == ")":
                self.at += 1
                self._nested(")", what)
            elif char == "\\":
                self.at += 2
            elif char == "'" and close != '"':
                self._until("'", "a single quote")
            elif char == '"':
                self._double_quoted()
            elif char in "$`" and not (close == '"' and self.text.startswith("$'", self.at)):
                self._substitution()
            else:
                self.at += 1
        raise ValueError(f"{what} is never closed")
