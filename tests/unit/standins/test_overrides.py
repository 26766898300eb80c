"""The stand-in gym reads an override as Hydra does, or both refuse it: what it takes, the real command takes."""

import string
import sys
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import QuotedString
from hydra.errors import HydraException
from hypothesis import given
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "docker" / "standins"))

from standin.overrides import OverrideError, parse_overrides

HYDRA = OverridesParser.create()


def plain(value):
    """Hydra's value without its wrappers."""
    if isinstance(value, QuotedString):
        return value.text
    if isinstance(value, list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {plain(key): plain(item) for key, item in value.items()}
    return value


def read_by_hydra(word: str):
    try:
        return plain(HYDRA.parse_override(word).value())
    except HydraException:
        return OverrideError


def read_by_standin(word: str):
    try:
        return parse_overrides([word])["key"]
    except OverrideError:
        return OverrideError


@pytest.mark.parametrize(
    "text",
    [
        "1", "-5", "1.5", "1e3", "1_000", "true", "null", "abc", "a b", "", "inf", "50%", "a:b", "x@y", "/x/y.yaml",
        "'it\\'s, {x}'", '"q \\"x\\""', "'\\\\'", "'a\\\\'", "'\\n'", "'a\\\\\\'b'", "'123'", "'é$x'", "[]", "{}",
        "[a,b,'c d']", "[[1],[2,3]]", "[{x:1},{}]", "{a:{b:c}}", "{'y z':1}", "x=y", "a\\,b", "http://x:1/v1",
        "[a", "'a",
    ],
)  # fmt: skip
def test_reads_what_hydra_reads(text):
    theirs, ours = read_by_hydra(f"+key={text}"), read_by_standin(f"+key={text}")
    assert (type(ours), ours) == (type(theirs), theirs)


@given(st.text(alphabet=string.ascii_letters + string.digits + " '\"\\,[]{}:=$éß", max_size=12))
def test_reads_any_quoted_text_as_hydra_does(text):
    escaped = text.replace("'", "\\'")
    theirs, ours = read_by_hydra(f"+key='{escaped}'"), read_by_standin(f"+key='{escaped}'")
    assert ours == theirs or theirs is OverrideError


def test_nested_names_become_one_mapping_and_a_name_given_twice_is_refused():
    assert parse_overrides(["+a.b=1", "+a.c=[x]", "++a.b=2"]) == {"a": {"b": 2, "c": ["x"]}}
    with pytest.raises(OverrideError, match="given twice"):
        parse_overrides(["+a.b=1", "+a.b=2"])
