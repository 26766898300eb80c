"""What reads a command's output may stop, as `| head -1` does."""

import subprocess
import sys

import pytest

PROGRAM = """\
import argparse, json, sys
from airflow_gym_provider._cli.command import command, refused

@command
def run(args):
    lines = [f"line {{at}}" for at in range(20_000)]
    if {what!r} == "refused":
        raise refused("\\n".join(lines), lines=lines)
    if {what!r} == "warned":
        for line in lines:
            print(line, file=sys.stderr)
    return 0, {{"lines": lines}}, lambda: print("\\n".join(lines[:{most}]))

run(argparse.Namespace(as_json={as_json}))
"""


def piped(what, *, as_json=False, most=20_000, close=True):
    """Run a command, read the first line of what it says, and close the pipe; the status and what stderr says."""
    program = PROGRAM.format(what=what, as_json=as_json, most=most)
    err = subprocess.STDOUT if what == "warned" else subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=err, text=True) as made:
        assert made.stdout is not None
        first = made.stdout.readline() if close and most else ""
        made.stdout.close()
        told = made.stderr.read() if made.stderr is not None else ""
        return made.wait(60), first, told


@pytest.mark.parametrize(
    ("what", "as_json", "first"),
    [("well", False, "line 0\n"), ("well", True, "{\n"), ("refused", True, "{\n"), ("warned", False, "line 0\n")],
)
def test_a_reader_that_has_enough_ends_a_command_as_it_ends_any_other(what, as_json, first):
    assert piped(what, as_json=as_json) == (141, first, "")


def test_so_does_one_that_read_nothing_of_what_was_still_to_be_written():
    """Less than a buffer is written at the end alone."""
    assert piped("well", most=1, close=False) == (141, "", "")
