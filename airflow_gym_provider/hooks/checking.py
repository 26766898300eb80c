"""What the "Test" button of a connection says: which Slurm answered, whether accounting does, and what to mend.

One script, one connection, read-only. An evaluation needs all of it: a login, Slurm's commands, slurmctld, slurmdbd,
and where the connection names them, an account, a partition and a folder that exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_gym_provider.config.defaults import ConfigDefaults
from airflow_gym_provider.exceptions import SlurmTransportError, SlurmUnreachableError
from airflow_gym_provider.hooks.defaults import read_defaults
from airflow_gym_provider.hooks.files_url import is_files_url
from airflow_gym_provider.jobscript import quote
from airflow_gym_provider.slurm.remote import Frames, RemoteScript
from airflow_gym_provider.slurm.troubles import Problem, tool_problem

if TYPE_CHECKING:
    from airflow.sdk import Connection

    from airflow_gym_provider.hooks.slurm import SlurmHook

_TIMEOUT = 60.0
_MOST_NAMES = 12
_NO_PAGE = "; but files_url must be an http(s):// address without blanks, with {path} in it"
_BODY = """\
frame me
printf '%s\\n%s\\n' "$(id -un)" "$(uname -n)"
framed version 0 15 sbatch --version
framed sinfo 0 15 sinfo --noheader --format=%R
framed sacct 0 15 sacct --noheader --parsable2 --allocations --starttime=now --format=JobIDRaw
framed accounts 0 15 sacctmgr --noheader --parsable2 show associations "user=$(id -un)" format=Account
[ -z "$_gym_slurm_bin" ] || [ -x "$_gym_slurm_bin/sbatch" ] || {{ frame bin; printf '%s\\n' "$_gym_slurm_bin"; }}
frame tools
type -P flock awk base64 sacctmgr >&1
_gym_folder={folder}
if [ -n "$_gym_folder" ]; then
  frame folder
  _gym_there=$_gym_folder
  while [ ! -e "$_gym_there" ] && [ "$_gym_there" != / ]; do _gym_there=$(dirname -- "$_gym_there"); done
  if [ -d "$_gym_there" ] && [ -w "$_gym_there" ]; then echo writable; else printf '%s\\n' "$_gym_there"; fi
fi
"""


def check_connection(hook: SlurmHook) -> tuple[bool, str]:
    """Whether evaluations can run over this hook's connection, and in words what was found. Never raises.

    The text is for the form in Airflow's UI: no secret of the connection is in it.
    """
    if hook.local:
        return _checked(hook, ConfigDefaults())
    conn = None
    try:
        conn = hook.get_connection(str(hook.ssh_conn_id))
        hook.use(conn)
        found, text = _checked(hook, read_defaults(conn))
        files_url = str((conn.extra_dejson if conn.extra else {}).get("files_url") or "").strip()
        if files_url and not is_files_url(files_url):
            found, text = (
                False,
                text + _NO_PAGE,
            )
    except Exception as err:
        found, text = False, str(err) or type(err).__name__
    return found, _plain(text, str(hook.ssh_conn_id), conn)


def _checked(hook: SlurmHook, given: ConfigDefaults) -> tuple[bool, str]:
    body = _BODY.format(folder=quote(given.output_path or ""))
    script = RemoteScript.build(body, needs=("sbatch", "squeue", "sacct", "scancel", "sinfo"), **hook.script_options)
    try:
        frames = script.frames(hook.run(script, _TIMEOUT, attempts=1).stdout)
    except SlurmUnreachableError as err:
        return False, f"{err}. Are host and port right, and can this machine reach them?"
    except SlurmTransportError as err:
        return False, str(err)
    finally:
        hook.close()
    if frames.error:
        return False, frames.error
    faults = [*_tool_faults(frames), *_name_faults(frames, given)]
    if faults:
        return False, f"{_answered(frames)}, but: " + "; ".join(faults)
    return True, f"{_answered(frames)}; accounting answers{_names(frames, given)}"


def _answered(frames: Frames) -> str:
    """Who answered: "slurm 22.05.8 on login1 as me"."""
    user, _, host = _text(frames, "me").partition("\n")
    return f"{_text(frames, 'version') or 'Slurm'} on {host} as {user}"


def _tool_faults(frames: Frames) -> list[str]:
    faults = []
    if folder := _text(frames, "bin"):
        faults.append(f"slurm_bin {folder!r} holds no sbatch; leave it empty to take the one on PATH")
    if problem := _problem(frames, "sinfo"):
        faults.append(f"slurmctld does not answer ({problem}): is it running, and is SLURM_CONF right there?")
    if problem := _problem(frames, "sacct"):
        faults.append(
            f"accounting does not answer ({problem}): evaluations need slurmdbd to know how a job ended; ask whoever "
            "runs the cluster"
        )
    tools = _text(frames, "tools").splitlines()
    missing = [name for name in ("flock", "awk", "base64") if not any(path.endswith(f"/{name}") for path in tools)]
    if missing:
        faults.append(f"{' and '.join(missing)} is not on the login node's PATH; every submission needs it")
    return faults


def _name_faults(frames: Frames, given: ConfigDefaults) -> list[str]:
    """What the connection names and the cluster does not know. What could not be asked is no fault."""
    faults = []
    partitions, accounts = _partitions(frames), _accounts(frames)
    if given.partition and partitions and not set(given.partition.split(",")) <= set(partitions):
        faults.append(f"partition {given.partition!r} is not there; there are {_listed(partitions)}")
    if given.account and accounts and given.account.lower() not in accounts:
        faults.append(f"account {given.account!r} is not one of this user's; these are {_listed(accounts)}")
    where = _text(frames, "folder")
    if where and where != "writable":
        faults.append(f"output_path {given.output_path!r} cannot be made: {where} is not a folder this user may write")
    elif given.output_path and not given.output_path.startswith("/"):
        faults.append(f"output_path {given.output_path!r} must be an absolute path")
    return faults


def _names(frames: Frames, given: ConfigDefaults) -> str:
    """The choice there is, for whoever fills in the form."""
    partitions, accounts = _partitions(frames), _accounts(frames)
    parts = [
        f"partition {given.partition}"
        if given.partition
        else f"partitions {_listed(partitions)}"
        if partitions
        else "",
        f"account {given.account}" if given.account else f"accounts {_listed(accounts)}" if accounts else "",
        f"output_path {given.output_path}" if given.output_path else "",
    ]
    return "".join(f"; {part}" for part in parts if part)


def _partitions(frames: Frames) -> list[str]:
    return [] if _problem(frames, "sinfo") else _lines(frames, "sinfo")


def _accounts(frames: Frames) -> list[str]:
    """The user's accounts; none when they could not be asked for, or nobody is held to any."""
    return [] if _problem(frames, "accounts") else _lines(frames, "accounts")


def _lines(frames: Frames, name: str) -> list[str]:
    return list(dict.fromkeys(line.strip() for line in _text(frames, name).splitlines() if line.strip()))


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def _text(frames: Frames, name: str) -> str:
    return "".join(frame.text for frame in frames.named(name)).strip()


def _problem(frames: Frames, tool: str) -> Problem | None:
    ends = frames.named(f"{tool}.end")
    status = int(ends[0].arg(1)) if ends and ends[0].arg(1).isdecimal() else None
    return tool_problem(tool, status, ends[0].text if ends else "")


def _plain(text: str, conn_id: str, conn: Connection | None) -> str:
    """Without the passing name that Airflow gives a connection under test, and without what must not be shown."""
    text = text.replace(f" (connection {conn_id!r})", "").replace(f"Connection {conn_id!r}", "The connection")
    decoded = conn.extra_dejson if conn is not None and conn.extra else {}
    extra = decoded if isinstance(decoded, dict) else {}
    hidden = [conn.password if conn is not None else None, *(extra.get(name) for name in _SECRET_EXTRAS)]
    for secret in hidden:
        if secret and len(str(secret)) > 1:
            text = text.replace(str(secret), "***")
    return text


_SECRET_EXTRAS = ("private_key", "private_key_passphrase", "passphrase")
