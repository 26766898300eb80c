"""What an SSH connection of Airflow says, read once and alike for workers and triggers.

The extras are those of the ssh provider (key_file, private_key, private_key_passphrase, host_key, no_host_key_check,
known_hosts, allow_host_key_change, look_for_keys, conn_timeout, compress, ciphers), and ours: `poll_interval` (the
shortest time between two status calls, in seconds), `slurm_bin` (the folder of Slurm's commands over there) and
`login_profile` (take PATH and SLURM_CONF from the start-up files of a login). A connection of type `ssh` and one of
type `slurm` are read alike: the latter only has a form that names these.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_gym_provider.exceptions import SlurmSettingsError

if TYPE_CHECKING:
    from airflow.sdk import Connection

DEFAULT_POLL_FLOOR = 30.0
_OF_A_SHELL = "'`\"$\\;&<>|(){}"
_TEXTS = ("key_file", "private_key", "private_key_passphrase", "passphrase", "host_key", "known_hosts")
# With them all that is read here, or by the ssh provider's hooks in its releases so far.
_KNOWN = (
    *_TEXTS,
    *("no_host_key_check", "ignore_hostkey_verification", "allow_host_key_change", "look_for_keys", "conn_timeout"),
    *("timeout", "cmd_timeout", "keepalive_interval", "remote_host", "compress", "ciphers", "disabled_algorithms"),
    *("account", "partition", "output_path", "poll_interval", "slurm_bin", "login_profile", "files_url"),
)


def read_extras(conn_id: str, extra: object) -> Mapping[str, Any]:
    """A connection's decoded extras. Raises SlurmSettingsError when they are no object of names and values, or one is
    a misspelt name: a host key that nobody reads pins nothing. Other names are other people's.
    """
    if not isinstance(extra, Mapping):
        raise SlurmSettingsError(f"Connection {conn_id!r}: its extras are {type(extra).__name__}, not a JSON object")
    for name in extra:
        word = str(name).strip().lower().replace("-", "_").removeprefix("extra__ssh__")
        near = difflib.get_close_matches(word, _KNOWN, n=1, cutoff=0.8)
        if near and name not in _KNOWN:
            raise SlurmSettingsError(
                f"Connection {conn_id!r}: nothing reads its extra {str(name)!r}; did you mean {near[0]!r}?"
            )
    return extra


def text_extra(conn_id: str, name: str, value: object) -> str:
    """An extra that is text, without blanks around it; "" when it is empty. Raises SlurmSettingsError for lists etc.

    A number is taken as it is written: an account may be one.
    """
    if value is None or value == "":
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int | float) or "\0" in str(value):
        # its value may be a secret
        raise SlurmSettingsError(f"Connection {conn_id!r}: extra {name!r} is {type(value).__name__}, it must be text")
    return str(value).strip()


def _word_of_ssh(conn_id: str, what: str, value: str) -> str:
    """A host or a login. `~/.ssh/config` may put it into a line for a shell (`ProxyCommand`, `Match exec`), so what
    means something there is refused, as by `ssh` itself. Raises SlurmSettingsError.
    """
    refused = _OF_A_SHELL if what == "host" else _OF_A_SHELL.replace("$", "").replace("\\", "")  # a domain's user
    odd = not value.isprintable() or any(c.isspace() or c in refused for c in value)
    if odd or value.startswith("-") or value.endswith("\\"):
        raise SlurmSettingsError(
            f"Connection {conn_id!r}: its {what} is {value!r}, which ssh could not be given: it must not begin with "
            f"'-' or hold blanks or any of {refused}"
        )
    return value


def _flag(value: object) -> bool:
    return str(value).strip().lower() == "true"


def _number(conn_id: str, name: str, value: object, default: float) -> float:
    if value is None or value == "":
        return default
    try:
        number = float(str(value))
    except ValueError:
        number = -1.0
    if not 0 < number < math.inf:
        raise SlurmSettingsError(
            f"Connection {conn_id!r}: extra {name!r} is {value!r}, it must be a number of seconds > 0"
        )
    return number


def _ciphers(conn_id: str, value: object) -> tuple[str, ...]:
    """A list, or a text with commas."""
    parts = value if isinstance(value, list | tuple) else text_extra(conn_id, "ciphers", value).split(",")
    return tuple(part for item in parts if (part := text_extra(conn_id, "ciphers", item)))


def _folder(conn_id: str, name: str, value: object) -> str | None:
    path = text_extra(conn_id, name, value)
    if path and (not path.startswith("/") or not path.isprintable() or ":" in path):
        raise SlurmSettingsError(
            f"Connection {conn_id!r}: extra {name!r} is {path!r}, it must be one absolute path without a colon (which "
            "would end it on PATH) or a control character"
        )
    return path or None


@dataclass(frozen=True)
class SshSettings:
    """One SSH connection. Secrets are left out of its repr."""

    conn_id: str
    host: str
    port: int | None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    key_file: str | None = None
    private_key: str | None = field(default=None, repr=False)
    passphrase: str | None = field(default=None, repr=False)
    known_hosts: str | None = None
    host_key: str | None = None
    check_host_key: bool = True
    trust_strangers: bool = False
    look_for_keys: bool = True
    connect_timeout: float = 30.0
    compress: bool = True
    ciphers: tuple[str, ...] = ()
    poll_floor: float = DEFAULT_POLL_FLOOR
    slurm_bin: str | None = None
    login_profile: bool = False
    host_is_configs: bool = False

    @classmethod
    def read(cls, conn: Connection, extra: Mapping[str, Any], hostname: str | None = None) -> SshSettings:
        """From a connection and its decoded extras; `hostname` counts when the connection names no host.

        Raises SlurmSettingsError naming the connection and the extra.
        """
        conn_id = str(conn.conn_id)
        read_extras(conn_id, extra)
        texts = {name: text_extra(conn_id, name, extra.get(name)) or None for name in _TEXTS}
        host = conn.host or hostname
        if not host:
            raise SlurmSettingsError(f"Connection {conn_id!r} has no host, and the config no compute.<name>.hostname")
        login = _word_of_ssh(conn_id, "login", conn.login or "") or None
        if extra.get("private_key") and extra.get("key_file"):
            raise SlurmSettingsError(f"Connection {conn_id!r}: give key_file or private_key, not both")
        trust = _host_key_check(conn_id, extra)
        if not conn.host and conn.password and (trust.get("trust_strangers") or not trust.get("check_host_key", True)):
            raise SlurmSettingsError(
                f"Connection {conn_id!r} has a password, no host, and takes any host key: whoever writes a config "
                "could have the password sent to a host of theirs. Give the connection its host or a host_key, or use "
                "a key"
            )
        return cls(
            conn_id=conn_id,
            host=_word_of_ssh(conn_id, "host", host),
            port=int(conn.port) if conn.port else None,
            username=login,
            password=conn.password or None,
            key_file=texts["key_file"],
            private_key=texts["private_key"],
            passphrase=texts["private_key_passphrase"] or texts["passphrase"],
            **trust,
            look_for_keys=str(extra.get("look_for_keys", "true")).lower() != "false",
            connect_timeout=_number(conn_id, "conn_timeout", extra.get("conn_timeout"), 30.0),
            compress=str(extra.get("compress", "true")).lower() != "false",
            ciphers=_ciphers(conn_id, extra.get("ciphers")),
            poll_floor=_number(conn_id, "poll_interval", extra.get("poll_interval"), DEFAULT_POLL_FLOOR),
            slurm_bin=_folder(conn_id, "slurm_bin", extra.get("slurm_bin")),
            login_profile=_flag(extra.get("login_profile")),
            host_is_configs=not conn.host,
        )

    @property
    def place(self) -> SshSettings:
        """These settings without the connection's name and manners: equal for two that lead to the same in one way."""
        return replace(self, conn_id="", poll_floor=0.0, host_is_configs=False)


def _host_key_check(conn_id: str, extra: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of SshSettings, as the ssh provider reads the extras: strict by default."""
    given = (extra.get(name) for name in ("no_host_key_check", "ignore_hostkey_verification"))
    skip = _flag(next((value for value in given if value is not None), None))
    host_key = str(extra.get("host_key") or "").split()
    if host_key and skip:
        raise SlurmSettingsError(
            f"Connection {conn_id!r}: host_key is given and no_host_key_check is true: take one away"
        )
    if host_key:
        # a bare key is an RSA key, as in the ssh provider
        return {"host_key": " ".join(host_key[:2]) if len(host_key) > 1 else f"ssh-rsa {host_key[0]}"}
    known = str(extra.get("known_hosts") or "").strip()
    # "none" is how the ssh provider's triggers are told not to check
    check = not (_flag(extra.get("allow_host_key_change")) or known.lower() == "none")
    return {"known_hosts": known or None, "check_host_key": check, "trust_strangers": skip}
