"""Secrets are found in every shape that a text may hold them in; what is no secret stays readable."""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
import subprocess
import time
import unicodedata
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_gym_provider.config.hiding import CREDENTIAL, hide, shapes, taken_out, worth_hiding
from airflow_gym_provider.jobscript import quote as bash_word

SHAPES = {
    "plain": str,
    "json": json.dumps,
    "json, not escaped": lambda text: json.dumps(text, ensure_ascii=False),
    "repr": repr,
    "a shell word": shlex.quote,
    "a shell word of ours": bash_word,
    "a shell word of bash": lambda text: (
        subprocess.run(["bash", "-c", 'printf %q "$1"', "_", text], capture_output=True, text=True, check=True).stdout
    ),
    "a shell word of bash in C": lambda text: (
        subprocess.run(
            ["bash", "-c", 'printf %q "$1"', "_", text], capture_output=True, text=True, check=True, env={"LC_ALL": "C"}
        ).stdout
    ),
    "export -p": lambda text: (
        subprocess.run(
            ["bash", "-c", 'export A="$1"; declare -p A', "_", text],
            capture_output=True,
            text=True,
            check=True,
            env={"LC_ALL": "C.UTF-8"},
        )
        .stdout.removeprefix("declare -x A=")
        .removesuffix("\n")
    ),
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "json of other languages": lambda text: json.dumps(text).replace("/", "\\/"),
    "a repr in json": lambda text: json.dumps(repr(text)),
    "a repr in a repr": lambda text: repr(repr(text)),
    "bytes": lambda text: repr(text.encode()),
    "beside an apostrophe": lambda text: repr(f"{text}'"),
    "html": html.escape,
    "yaml": lambda text: "'" + text.replace("'", "''") + "'",
    "decomposed": lambda text: unicodedata.normalize("NFD", text),
    "url": lambda text: quote(text, safe=""),
    "url in small letters": lambda text: re.sub("%..", lambda found: found[0].lower(), quote(text, safe="")),
    "a url's path": quote,
    "a form": quote_plus,
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for urls": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "basic authentication": lambda text: base64.b64encode(b"me:" + text.encode() + b":x").decode(),
    "behind one character": lambda text: base64.b64encode(b":" + text.encode()).decode(),
}
SECRETS = [
    "hf_Abc123Def456",
    'it\'s a "quoted" $HOME `id` \\ secret',
    "zählwerk-ünicode/with+signs&more=x?y",
    "a secret with its newline\n",
    "canary'\"&= %,#~a=~/x!{b}",
    "-----BEGIN KEY-----\nMIIabc+def/ghi=\n-----END KEY-----\n",
    "x" * 100_000,
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("secret", SECRETS[:-1])
def test_a_secret_is_taken_out_in_whatever_shape(secret: str, shape: str) -> None:
    for piece in {secret, *filter(worth_hiding, secret.split("\n"))}:
        text = hide(f"before {SHAPES[shape](piece)} after", [secret])
        assert text.startswith("before ") and text.endswith(" after")
        # What base64 makes of its ends belongs to what stands beside it as well.
        most = {
            "basic authentication": 14,
            "behind one character": 10,
            "base64": 6,
            "base64 for urls": 6,
            "json in json": 6,
            "a repr in json": 6,
            "a repr in a repr": 8,
        }.get(shape, 5)
        assert "***" in text and len(text) - len("before *** after") <= most


@pytest.mark.parametrize("size", [64, 76])
def test_a_secret_that_base64_has_wrapped_is_taken_out(size: int) -> None:
    secret = "".join(chr(33 + at * 7 % 90) for at in range(200))
    whole = base64.b64encode(secret.encode()).decode()
    wrapped = "\n".join(whole[at : at + size] for at in range(0, len(whole), size))
    assert re.fullmatch(r"(\*\*\*=*\n?)+", hide(wrapped, [secret]))


@given(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0*"), min_size=8, max_size=60).filter(
        worth_hiding
    )
)
def test_nothing_of_a_secret_is_left(secret: str) -> None:
    text = "\n".join(make(secret) for name, make in SHAPES.items() if "bash" not in name and name != "export -p")
    hidden = hide(text, [secret])
    assert secret not in hidden
    assert base64.b64encode(secret.encode()).decode()[: len(secret.encode()) // 3 * 4] not in hidden
    assert json.dumps(secret)[1:-1] not in hidden


def test_a_long_secret_is_hidden_in_bounded_time_and_space() -> None:
    begun = time.process_time()
    assert hide(f"a {SECRETS[-1]} b", SECRETS) == "a *** b"
    assert sum(map(len, shapes(SECRETS[-1:]))) <= 200_000
    assert time.process_time() - begun < 1


@pytest.mark.parametrize(
    "value", ["", "1", "true", "True", "0", "yes", "false", "FALSE", "debug", "localhost", "8000", "16384"]
)
def test_what_stands_in_every_log_is_no_secret(value: str) -> None:
    text = f"ports 8000 and 16384, debug: {value} true false 1 0 yes localhost"
    assert shapes([value]) == [] and hide(text, [value]) == text


@pytest.mark.parametrize(
    ("text", "left", "secrets"),
    [
        ("lit:canary", "lit:***", {"canary"}),
        ("canary", "***", {"canary"}),
        ("a canary, b secret c", "a ***, b *** c", {"canary", "secret"}),
        ("a canarysecret", "a ******", {"canarysecret"}),
        ("nothing", "nothing", set()),
        ("already ***", "***", set()),
        ("of another length", "*** else entirely, and longer", set()),
    ],
)
def test_what_a_masker_has_taken_out_of_a_text_is_known(text: str, left: str, secrets: set[str]) -> None:
    assert taken_out(text, left) == secrets


def test_the_longer_of_two_secrets_goes_first() -> None:
    assert hide("canary-and-more canary", ["canary", "canary-and-more"]) == "*** ***"


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "OPENAI_API_KEY", "wandb_key", "GH_PAT", "PASSWORD", "SSH_PASSPHRASE", "X_AUTH"]
)
def test_variables_that_hold_credentials_are_known_by_their_names(name: str) -> None:
    assert CREDENTIAL.search(name)


@pytest.mark.parametrize("name", ["PATH", "KEYBOARD", "AUTHOR", "SCRATCH", "PATCH_LEVEL", "MONKEY"])
def test_others_are_not(name: str) -> None:
    assert not CREDENTIAL.search(name)
