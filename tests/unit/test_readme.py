"""The README's table "What happens when …": each line has a test that bears its words, and no test bears others."""

import ast
from pathlib import Path

REPO = Path(__file__).parents[2]


def cases() -> list[str]:
    """The first cells of the table."""
    section = (REPO / "README.md").read_text().partition("\n## What happens when …\n")[2].partition("\n## ")[0]
    table = section.strip().partition("\n\n")[0]
    return [line.split("|")[1].strip() for line in table.splitlines()[2:]]


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
