"""What the README promises has tests: each line of "What happens when …" one that bears its words and no test others,
each line of "What it promises" the one that it names.
"""

import ast
from collections import Counter
from pathlib import Path

REPO = Path(__file__).parents[2]


def table(title: str) -> list[list[str]]:
    """The cells of a section's first table, without its head."""
    section = (REPO / "README.md").read_text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = section[section.index("\n| ") + 1 :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def cases() -> list[str]:
    """What may happen."""
    return [cells[0] for cells in table("What happens when …")]


def functions(path: Path) -> list[str]:
    """Names of the tests in a file."""
    found = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [node.name for node in found if node.name.startswith("test_")]


def marked(path: Path) -> list[tuple[str, str]]:
    """(case, test) for each `@pytest.mark.row(case)` of a file."""
    tests = [
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [
        (ast.literal_eval(mark.args[0]), test.name)
        for test in tests
        for mark in test.decorator_list
        if isinstance(mark, ast.Call) and ast.unparse(mark.func) in ("row", "pytest.mark.row")
    ]


def test_each_line_has_a_test_of_its_words_and_each_mark_a_line():
    found = [pair for path in sorted((REPO / "tests").rglob("test_*.py")) for pair in marked(path)]
    assert len(cases()) > 25, "the table is not where it was"
    assert len(set(cases())) == len(cases())
    assert {case for case, _ in found} == set(cases())
    assert [test for _, test in found if not test.startswith("test_")] == [], "a mark on what is no test proves nothing"


def test_each_promise_names_a_test_that_is_there_once():
    named = [cells[-1].strip("`") for cells in table("What it promises")]
    there = Counter(name for path in (REPO / "tests").rglob("test_*.py") for name in functions(path))
    assert len(named) > 10, "the table is not where it was"
    assert {name: there[name] for name in named} == dict.fromkeys(named, 1)
