"""Quoting: how any text becomes one word of a shell line, of a directive, or of a here-document.

Every value that came from a config, from the environment or from a cluster passes through here before it stands in a
line that some program will parse. Nothing else in the package quotes by hand.
"""

from __future__ import annotations

import json
import re

MAX_WORD_BYTES = 131_072 - 1
"""Longest single argument or ``NAME=value`` in bytes: Linux's MAX_ARG_STRLEN (128 KiB) less its closing NUL."""

MAX_ARGUMENTS_BYTES = 2_000_000
"""Arguments and environment of one program together, in bytes: Linux takes a quarter of the stack for them, which is
8 MiB unless a site says otherwise."""

_PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./-]+")
# What would break a line in two, or in some reader's eyes: C0 and C1 controls and Unicode's own line separators.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NOT_ASCII = re.compile("[^ -~]")
_SHORT = {"\n": r"\n", "\t": r"\t", "\r": r"\r", "\\": r"\\", "'": r"\'"}


def quote(text: str) -> str:
    """One bash word that stands for exactly `text`, on one line, whatever `text` holds.

    Plain words come back as they are, so that scripts stay readable. A text with line breaks or other control
    characters takes bash's ``$'…'`` form: the result never spans lines, which is why no value can end a
    here-document or look like a directive. No backslash of ours ever follows a byte beyond ASCII: in the character sets
    of some sites (GBK, Shift-JIS) the two would be one character to bash, and what was escaped would be bare. Quoting
    does not stop a program from reading a word with a leading dash as an option; that is the caller's business.

    Raises ValueError for what no process argument or variable can hold: a NUL, or text that is not valid UTF-8.
    """
    check_text(text)
    if _PLAIN.fullmatch(text):
        return text
    if _CONTROL.search(text):
        return "$'" + "".join(_ansi_c(char) for char in text) + "'"
    return "'" + text.replace("'", "'\\''") + "'"


def check_text(text: str) -> None:
    """Raise ValueError when `text` holds what no process argument can: a NUL or a lone surrogate."""
    if "\0" in text:
        raise ValueError("a NUL character cannot be passed to a program")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError("text that is not valid UTF-8 cannot be passed to a program") from error


def quote_directive(text: str) -> str:
    """One word of an ``#SBATCH`` line that sbatch's own parser reads as exactly `text`.

    sbatch knows both kinds of quotes and, unlike a shell, a backslash inside either; an unquoted ``#`` starts a
    comment. Double quotes with escaped backslashes and double quotes mean the same to sbatch and to a shell.

    Raises ValueError for a text with a line break: a directive is one line.
    """
    check_text(text)
    if _PLAIN.fullmatch(text):
        return text
    if _CONTROL.search(text):
        raise ValueError("a directive is one line; line breaks and control characters are not possible")
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def heredoc_delimiter(stem: str, body: str) -> str:
    """A delimiter for a quoted here-document that no line of `body` equals.

    `stem` gives the readable part, upper-cased; a number is added only if the body really holds such a line.
    """
    base = "END_" + re.sub(r"[^A-Z0-9]+", "_", stem.upper())
    lines = set(body.splitlines())
    candidate, number = base, 1
    while candidate in lines:
        number += 1
        candidate = f"{base}_{number}"
    return candidate


def collector_yaml(text: str) -> str:
    """`text` as a YAML string in a collector's configuration, inside a here-document that the shell expands.

    Three readers take their turn: the shell, YAML, and the collector, for which a ``$`` starts a reference. ASCII only,
    for the reason that `quote` gives.
    """
    quoted = json.dumps(text.replace("$", "$$"), ensure_ascii=False)
    plain = _NOT_ASCII.sub(lambda char: f"\\U{ord(char[0]):08x}", quoted)
    return re.sub(r"([\\$`])", r"\\\1", plain)


def _ansi_c(char: str) -> str:
    if char in _SHORT:
        return _SHORT[char]
    if _NOT_ASCII.match(char):
        # Bytes rather than \u escapes: bash expands those according to its locale, and a batch job may run in C.
        return "".join(f"\\x{byte:02x}" for byte in char.encode("utf-8"))
    return char
