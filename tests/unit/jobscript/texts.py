"""Text of every kind that a config can hold: what an attacker, an accident or another language would write."""

from __future__ import annotations

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
    "x" * 100_000,
]

ALPHABET = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
TEXT = st.one_of(
    st.sampled_from(NASTY),
    st.text(ALPHABET, max_size=40),
    st.text(st.sampled_from("'\"\\$`{}()[] \n\t;&|<>#=,:~*?!%-a1é"), max_size=30),
)
SHORT_TEXT = TEXT.filter(lambda text: len(text) <= 1000)
LINE = TEXT.filter(lambda text: text.strip() and not any(ord(char) < 32 or ord(char) == 127 for char in text)).filter(
    lambda text: not set("\x85\u2028\u2029") & set(text)
)
