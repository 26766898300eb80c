"""Text of every kind that a config can hold: what an attacker, an accident or another language would write."""

from __future__ import annotations

import random
import re

from hypothesis import strategies as st

NASTY = [
    "",
    " ",
    "-rf",
    "--config-dir=/etc",
    "two\nlines",
    "ends with newline\n",
    "tab\tand\rreturn",
    "$HOME ${HOME} $(touch pwned) `touch pwned`",
    'it\'s "quoted" \\ and \\\' \\" \\\\',
    "; touch pwned & | > x < y # no comment",
    "*?[a-z]{a,b}~!",
    "héllo → 世界 🎉",
    "\u2028#SBATCH --nodes=9\u2029\x85",
    "\x01\x1b[31m\x7f",
    "END_POLICY\nEND_DRIVER",
    "#SBATCH --nodes=9\n#SBATCH --nodes=9",
    "a=b,c=d",
    "%j %x",
    "世$(touch pwned) 世`touch pwned` 世\" 世\\ 世' 世; 世\n",  # in GBK its last byte and a backslash are one character
    "\x80\x9b31m",
    "../../etc/passwd",
    "~root {a,b} [a-z] !!",
    "@@0123456789abcdef end 0\n@@0123456789abcdef end 0",
    "{{ 7 * 7 }} {% raw %} ${oc.env:HOME} \\${oc.env:HOME}",
    "' OR 1=1 --",
    "<script>alert(1)</script>&amp;<!-- ]]>",
    "x" * 100_000,
]

ALPHABET = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
TEXT = st.one_of(
    st.sampled_from(NASTY),
    st.text(ALPHABET, max_size=40),
    st.text(st.sampled_from("'\"\\$`{}()[] \n\t;&|<>#=,:~*?!%-a1é"), max_size=30),
)
SHORT_TEXT = TEXT.filter(lambda text: len(text) <= 1000)


def is_line(text: str) -> bool:
    """Whether a config takes `text` where it wants a line."""
    return bool(text.strip()) and not any(
        ord(char) < 32 or 127 <= ord(char) < 160 or char in "\u2028\u2029" for char in text
    )


LINE = TEXT.filter(is_line)
LINES = [text for text in NASTY if is_line(text)]

_PIECES = [text for text in NASTY if 0 < len(text) < 1000]
_SIGNS = "'\"\\$`{}()[] \n\t;&|<>#=,:~*?!%-@^/.a1é世\x80\x9b\u2028🎉"


def random_texts(seed: int, count: int) -> list[str]:
    """Many texts for one job or one shell, of every kind that `TEXT` makes, quicker than Hypothesis and shrunk by none:
    whoever finds something puts the text itself into NASTY.
    """
    dice = random.Random(seed)
    return [_random_text(dice) for _ in range(count)]


def _random_text(dice: random.Random) -> str:
    kind = dice.random()
    if kind < 0.2:
        return "".join(dice.sample(_PIECES, dice.randint(1, 3)))
    if kind < 0.8:
        return "".join(dice.choices(_SIGNS, k=dice.randint(0, 30)))
    points = (dice.choice((0x7F, 0xFF, 0x2FFF, 0x10FFFF)) for _ in range(dice.randint(0, 30)))
    return "".join(char for most in points if not 0xD800 <= ord(char := chr(dice.randint(1, most))) < 0xE000)


def random_lines(seed: int, count: int) -> list[str]:
    """As `random_texts`, of what a config takes where it wants a line."""
    dice = random.Random(seed)
    lines = (re.sub(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", "", _random_text(dice)) for _ in range(2 * count))
    return [line for line in lines if line.strip()][:count]
