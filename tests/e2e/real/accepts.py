"""Run by the Python of a real installation: which command lines do the real parsers refuse?

Standard input is a JSON list of [program, argument...]; standard output a JSON list of one text for each: "" or why it
is refused. Nothing is started.
"""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable

Parse = Callable[[list[str]], None]


def vllm() -> Parse:
    """`vllm serve`, with the checks that it makes before it loads anything."""
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    command = ServeSubcommand()
    parser = FlexibleArgumentParser()
    command.subparser_init(parser.add_subparsers(required=True, dest="subparser"))
    return lambda words: command.validate(parser.parse_args(words))


def vllm_router() -> Parse:
    """`vllm-router`."""
    from vllm_router.launch_router import parse_router_args

    return parse_router_args


def ray() -> Parse:
    """`ray start`, `ray status` and `ray symmetric-run`."""
    from ray.scripts.scripts import cli

    def parse(words: list[str]) -> None:
        name, *rest = words
        if name == "symmetric-run":
            mark = rest.index("--")
            _symmetric(rest[:mark])
        else:
            cli.commands[name].make_context(name, rest)

    return parse


def _symmetric(words: list[str]) -> None:
    from ray.scripts.symmetric_run import curate_and_validate_ray_start_args

    left = curate_and_validate_ray_start_args(words)
    if left:
        from ray.scripts.scripts import start

        start.make_context("start", left)


def refusal(parse: Parse, words: list[str]) -> str:
    """Why `words` are refused, or nothing."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            parse(words)
    except (Exception, SystemExit) as problem:
        return f"{problem!r} {said.getvalue()[-400:]}"
    return ""


def main() -> None:
    """Judge what stands on standard input."""
    parsers = {"vllm": vllm, "vllm-router": vllm_router, "ray": ray}
    ready: dict[str, Parse] = {}
    answers = []
    for program, *words in json.load(sys.stdin):
        if program not in ready:
            ready[program] = parsers[program]()
        answers.append(refusal(ready[program], words))
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
