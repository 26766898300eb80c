"""One line of JSON in, one row of tabs out: `rollouts.awk`, ten times as fast, for login nodes that have a Python.

Runs there, not here: any Python from 3.6 on, standard library only, one line in memory at a time. The rows are the same
to the byte, so everything is compared as JSON spells it, byte by byte (hence latin-1), and nothing is decoded.
Ends with 3 when a line is too long to be held: awk, which holds none, has to do it then.
"""

import json
import re
import sys

LONGEST = 16 * 1024 * 1024
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?")
COLUMNS = {
    "/_ng_task_index": "task",
    "/_ng_rollout_index": "rollout",
    "/reward": "reward",
    "/failure_kind": "kind",
    "/_ng_failure_class": "class",
    "/agent_ref/name": "agent",
    "/ng_perf/prompt_tokens": "input",
    "/ng_perf/completion_tokens": "output",
    "/ng_perf/reasoning_tokens": "reasoning",
    "/ng_perf/total_latency_ms": "milliseconds",
    "/response/usage/input_tokens": "used_input",
    "/response/usage/output_tokens": "used_output",
    "/response/usage/output_tokens_details/reasoning_tokens": "used_reasoning",
}
TEXTS = ("task", "rollout", "kind", "class", "agent")
INNER = {path.rsplit("/", depth)[0] for path in COLUMNS for depth in (1, 2, 3)} - {""}
PROMPT = "/responses_create_params"

# Numbers are left as they are spelt; strict=False takes control characters in strings, as awk does.
decoder = json.JSONDecoder(strict=False, parse_int=str, parse_float=str, parse_constant=str)
scan = decoder.scan_once  # type: ignore[attr-defined]


def main(source: str) -> int:
    """Rows of standard input on standard output; `source` is their second column."""
    write = sys.stdout.buffer.write
    number = 0
    while True:
        line = sys.stdin.buffer.readline(LONGEST)
        number += 1
        if not line.endswith(b"\n"):
            # The end, or half a line: only ended lines count.
            return 3 if len(line) == LONGEST else 0
        text = line.decode("latin-1")
        if text.strip(" \t\r\n"):
            write((row(text, source, number) + "\n").encode("latin-1"))


def row(line: str, source: str, number: int) -> str:
    """The row of one line."""
    found = {}  # type: dict[str, str]
    try:
        begin = len(line) - len(line.lstrip(" \t\r"))
        _, end = scan(line, begin)
        if line[begin] != "{" or line[end:].strip(" \t\r\n"):
            raise ValueError
        walk(line, begin, "", found)
    except (ValueError, StopIteration, RecursionError):
        return "bad\t" + source
    get = found.get
    keyed = get("task", "-") != "-" and get("rollout", "-") != "-"
    fields = [get("agent", "-"), get("task", "-"), found["rollout"] if keyed else f"#{number}", str(number)]
    fields.append(numeric(get("reward")))
    for first, second in (("input", "used_input"), ("output", "used_output"), ("reasoning", "used_reasoning")):
        fields.append(numeric(get(first)) if numeric(get(first)) != "-" else numeric(get(second)))
    fields.append(numeric(get("milliseconds")))
    fields.append(get("class" if source == "failures" else "kind", "-"))
    fields.append(get("prompt", "0"))
    return "\t".join(["ok", source, *fields])


def walk(line: str, at: int, path: str, found: "dict[str, str]") -> None:
    """Note the columns among the members of the object that begins at `at`, and below."""
    at = skip(line, at + 1)
    while line[at] == '"':
        _, end = scan(line, at)
        name = path + "/" + line[at + 1 : end - 1]
        at = skip(line, skip(line, end) + 1)
        _, end = scan(line, at)
        if name in COLUMNS:
            found[COLUMNS[name]] = spelt(line, at, end, COLUMNS[name])
        elif name in INNER and line[at] == "{":
            walk(line, at, name, found)
        elif name == PROMPT and line[at] in "{[":
            found["prompt"] = str(digest(line[at:end], int(found.get("prompt", "0"))))
        at = skip(line, end)
        if line[at] == ",":
            at = skip(line, at + 1)


def skip(line: str, at: int) -> int:
    """The place of what is not blank."""
    while line[at] in " \t\r":
        at += 1
    return at


def spelt(line: str, begin: int, end: int, column: str) -> str:
    """A value as the row holds it."""
    text = line[begin:end]
    if text[0] == '"':
        return text[1:-1].replace("\t", " ") if column in TEXTS else "-"
    return "-" if text[0] in "{[n" else text


def numeric(text: "str | None") -> str:
    """The text when it is a finite number, else "-"."""
    if text is None or not NUMBER.fullmatch(text) or abs(float(text)) == float("inf"):
        return "-"
    return text


def digest(text: str, value: int) -> int:
    """A fingerprint of what was asked: length and some characters of each piece of its strings."""
    inside = False
    for piece in text.split('"'):
        if inside:
            size = len(piece)
            for at in range(0, size, size // 24 + 1):
                value = (value * 131 + ord(piece[at])) % 2147483647
            value = (value * 131 + size) % 2147483647
            if (size - len(piece.rstrip("\\"))) % 2:
                continue
        inside = not inside
    return value


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
