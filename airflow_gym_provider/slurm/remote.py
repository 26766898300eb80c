"""The frame convention of everything that is run on a login node.

A `RemoteScript` is one bash program for the standard input of `bash -s`. Login shells print banners, connections break
in the middle, and login environments carry formats and filters; so the program marks what is its own with a nonce, runs
nothing unless it arrived whole, and sets its environment itself (`remote.sh`).
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from airflow_gym_provider.jobscript.quoting import quote

__all__ = ["Answer", "Frame", "Frames", "RemoteScript"]

# The first command: BASH_ENV, SHELLOPTS and functions of a login may change how all else is read. In POSIX mode no
# function stands in the way of unset and set.
_PROGRAM = """\
{{ POSIXLY_CORRECT=1; unset -f unset set shopt unalias; unset POSIXLY_CORRECT; unalias -a; set +abefkmuvxCEHPT -Bh \
+o pipefail; shopt -u expand_aliases nullglob failglob dotglob nocaseglob nocasematch xpg_echo lastpipe execfail; \
trap - DEBUG ERR RETURN EXIT; }} 2>/dev/null
_gym_main_{nonce}() {{
_gym_nonce={nonce}
_gym_slurm_bin={slurm_bin}
_gym_needs={needs}
_gym_login_profile={login_profile}
_gym_body() {{
:
{body}
}}
{prelude}
}}
_gym_main_{nonce} {end}
"""
_END = "3<&0 </dev/null; exit"
# A turn that bash gives up in the middle (no process to be had) comes to no end; whoever asked must not wait for it.
_STAYING = '3</dev/null </dev/null\n[ "${{_gym_ended-}}" = {nonce} ] || exit 125'
_NEXT = """\
_gym_body() {{
:
{body}
}}
_gym_turn {nonce} 3</dev/null </dev/null
[ "${{_gym_ended-}}" = {nonce} ] || exit 125
"""
_MARK = re.compile(r"^@@(?P<nonce>[0-9a-f]+) (?P<name>\S+)(?P<words>(?: [^\r\n]*)?)\r?\n", re.MULTILINE)


@dataclass(frozen=True)
class Answer:
    """What any transport returns for one script: exit status (of bash, or -1 when cut off), and both streams as
    text.
    """

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Frame:
    """One named piece of a script's output: the words after the marker, and the text up to the next marker,
    unchanged.
    """

    name: str
    args: tuple[str, ...]
    text: str

    def arg(self, index: int, default: str = "") -> str:
        """The word at `index`, or `default` when the frame has fewer."""
        return self.args[index] if index < len(self.args) else default


class Frames(list[Frame]):
    """The frames of one answer in order, without the closing one; `complete` tells whether that came.

    When it did not come, the last frame may have been cut short at any byte: whoever reads it must bear that.
    """

    def __init__(self, frames: Iterable[Frame] = (), complete: bool = False) -> None:
        super().__init__(frames)
        self.complete = complete

    def named(self, name: str) -> list[Frame]:
        """Every frame of that name, in order."""
        return [frame for frame in self if frame.name == name]

    @property
    def error(self) -> str | None:
        """What the script says it could not do at all (Slurm not found), for people; None when it began well."""
        errors = self.named("error")
        return errors[0].text.strip() if errors else None


@dataclass(frozen=True)
class RemoteScript:
    """A complete program for `bash -s`, and the key to its output. Equal bodies give different nonces."""

    text: str = field(repr=False)
    nonce: str

    @classmethod
    def build(
        cls,
        body: str,
        *,
        slurm_bin: str | None = None,
        login_profile: bool = False,
        needs: Sequence[str] = ("sbatch", "squeue"),
        payload: str = "",
        stays: bool = False,
    ) -> RemoteScript:
        """Wrap `body`, bash that may use `frame`, `framed` and `as_login` of remote.sh and `return` to end early.

        The body's standard input is empty; `payload` (text, sent after the program) waits on its descriptor 3. Programs
        in `needs` that are found neither on PATH, nor in `slurm_bin`, nor on the PATH that /etc/profile sets (asked
        only when `slurm_bin` is not given) keep the body from running: `Frames.error` then says so. `login_profile`
        takes PATH, SLURM_CONF and LD_LIBRARY_PATH from the login start-up files in any case. Everything is sent on
        standard input, never as an argument, so a body may hold secrets. `stays`: the shell takes further scripts, see
        `following`; no payload then.
        """
        nonce = secrets.token_hex(8)
        program = _PROGRAM.format(
            nonce=nonce,
            slurm_bin=quote(slurm_bin or ""),
            needs=quote(" ".join(needs)),
            login_profile=int(login_profile),
            body=body,
            prelude=_prelude(),
            end=_STAYING.format(nonce=nonce) if stays else _END,
        )
        return cls(program + payload, nonce)

    @classmethod
    def following(cls, body: str) -> RemoteScript:
        """A short program for a shell that stayed and has answered: what the first one defined is there, and its
        options count. A program that was cut runs nothing either.
        """
        nonce = secrets.token_hex(8)
        return cls(_NEXT.format(nonce=nonce, body=body), nonce)

    def began(self, stdout: str) -> bool:
        """Whether the shell had begun to run it."""
        return f"@@{self.nonce} begin" in stdout

    def frames(self, stdout: str) -> Frames:
        """The frames in what came back, whatever stands before, between or after them. Never raises."""
        marks = [mark for mark in _MARK.finditer(stdout) if mark["nonce"] == self.nonce]
        frames = Frames()
        for index, mark in enumerate(marks):
            if mark["name"] == "end":
                frames.complete = True
                break
            stop = marks[index + 1].start() - 1 if index + 1 < len(marks) else len(stdout)
            if mark["name"] != "begin":
                frames.append(
                    Frame(mark["name"], tuple(mark["words"].split()), stdout[mark.end() : max(stop, mark.end())])
                )
        return frames


@cache
def _prelude() -> str:
    return Path(__file__).with_name("remote.sh").read_text(encoding="utf-8")
