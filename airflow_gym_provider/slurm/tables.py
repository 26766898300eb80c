"""Tables that squeue and sacct print: which lines are rows, and which of a row's cells is which.

Rows are believed only when they are whole. Our own commands print the job id as the first and again as the last column,
between separators that no job name holds, so a row that lost its end (a connection that broke, a banner in the middle)
shows. What is left of such a row tells besides that the answer is damaged, so that nothing follows from what it lacks.
Tables of other origin, separated by "|" and without that sentinel, are read as far as their columns fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

__all__ = ["FOLDER", "JOB_ID", "SEPARATOR", "TableShape", "read_table", "rests"]

SEPARATOR = "\x1f"
"""Between the columns of our own commands: ASCII's unit separator. In bash: $'\\x1f'."""

JOB_ID = re.compile(r"(?P<base>\d+)(?P<part>\+\d+|_(?:\d+|\[[^\]\s|]*\]))?(?:\.(?P<step>\w[\w+.]*))?")
"""A job as both tools print it: 12, 12+1 (part of a heterogeneous job), 12_3, 12_[4-9%2] (array), with .batch, .0, …"""

FOLDER = re.compile(r"[^\x00-\x1f]*")
"""A job's directory: one in which text from elsewhere stands would make the job another one's."""

_LONGEST_ROW = 50  # lines: names may hold line breaks, but a lost end must not swallow the rest of the table


@dataclass(frozen=True)
class TableShape:
    """What is known of a table: what a cell must look like, which columns hold free text, and columns to use unnamed.

    `typed` and `free` name columns in lower case. `unnamed` are the columns, in order, of a table without a header.
    """

    typed: Mapping[str, re.Pattern[str]]
    free: Sequence[str]
    unnamed: Sequence[str] = ()


def read_table(text: str, shape: TableShape) -> Iterator[dict[str, str]]:
    """Every whole row as {column in lower case: cell}, in order of appearance. Never raises.

    The first column is always the job id. Lines that are no rows (banners, headers, "CLUSTER: x") are passed over, and
    so is a row with too few cells or with a cell that its column cannot hold: better no news than wrong news.
    """
    return (piece for piece in _pieces(text, shape) if isinstance(piece, dict))


def rests(text: str, shape: TableShape) -> list[str]:
    """What in a table of our own is neither a whole row nor a header nor text from elsewhere: what is left of a row."""
    return [piece for piece in _pieces(text, shape) if isinstance(piece, str) and SEPARATOR in piece]


def _pieces(text: str, shape: TableShape) -> Iterator[dict[str, str] | str]:
    """The cells of each whole row, and in between, as text, whatever is none."""
    columns, separator = list(shape.unnamed), "|"
    lines: list[str] = []
    for line in text.replace("\r\n", "\n").split("\n"):
        header = _header(line, shape)
        starts = separator in line and JOB_ID.fullmatch(line.split(separator, 1)[0])
        if lines and (header or starts or len(lines) == _LONGEST_ROW):
            yield "\n".join(lines)
            lines = []
        if header:
            columns, separator = header
        elif starts or lines:
            lines.append(line)
        else:
            yield line
        cells = _cells("\n".join(lines), columns, separator, shape) if lines and columns else None
        if cells:
            yield cells
            lines = []
    yield "\n".join(lines)


def _header(line: str, shape: TableShape) -> tuple[list[str], str] | None:
    separator = SEPARATOR if SEPARATOR in line else "|"
    names = line.strip().lower().split(separator)
    if names[-1] == "":
        names.pop()  # sacct -p ends each line with a separator
    known = {*shape.typed, *shape.free}
    return (names, separator) if len(names) > 1 and names[0] == "jobid" and known.intersection(names[1:]) else None


def _cells(row: str, columns: Sequence[str], separator: str, shape: TableShape) -> dict[str, str] | None:
    cells = row.split(separator)
    sentinel = columns[-1] == columns[0]
    if len(cells) == len(columns) + 1 and cells[-1] == "" and not sentinel:
        cells.pop()
    extra = len(cells) - len(columns)
    if extra < 0 or (extra and separator == SEPARATOR) or (sentinel and cells[-1] != cells[0]):
        return None
    if extra:  # only in tables that are not ours: no name holds our separator
        at = max((columns.index(name) for name in shape.free if name in columns), default=-1)
        if at < 0:
            return None
        cells[at : at + extra + 1] = [separator.join(cells[at : at + extra + 1])]
    named = dict(zip(columns, cells, strict=True))
    fits = all(shape.typed[name].fullmatch(cell) for name, cell in named.items() if name in shape.typed)
    return named if fits else None
