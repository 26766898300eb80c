"""The hosts of docker/compose.yaml without a container engine, which tests cannot expect: each in its own namespaces.

`docker compose config` says what the file means. What an engine would make of that is made here: a network, processes,
a host name, a root folder and a user for each host; volumes that begin as their folder in the image is; `depends_on`,
health checks, and commands that are run inside. A Dockerfile's COPY, ENV, USER, ENTRYPOINT and `install -d` are taken
from it. What comes with its base image and its packages is this machine's. Takes root.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
COMPOSE = REPO / "docker" / "compose.yaml"
PATHS = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Whatever ends us ends all of it.
WITH_US = ("setpriv", "--pdeathsig", "KILL")
# An engine's own for a tmpfs; an option of the file comes after them.
TMPFS = "rw,noexec,nosuid,nodev,mode=1777"


def composed(environ: Mapping[str, str] = {}) -> dict[str, Any]:
    """What docker/compose.yaml means, in the words of `docker compose config`."""
    program = Path(sys.executable).with_name("docker-compose")
    words = [program, "--file", COMPOSE, "config", "--format", "json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ) | dict(environ))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Image:
    """What a Dockerfile adds to its base."""

    def __init__(self, dockerfile: Path) -> None:
        text = re.sub(r"^\s*#.*\n", "", dockerfile.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
        self.lines = [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines())]
        self.base = self._last("FROM").partition(" ")[0]
        self.entrypoint: list[str] = json.loads(self._last("ENTRYPOINT"))
        self.user, self.group = (int(number) for number in self._last("USER").split(":"))
        self.environ = dict(pair.split("=", 1) for pair in shlex.split(self._last("ENV")))
        self.home = self._last("WORKDIR")
        # Folders of the user's; everything else is root's.
        made = re.findall(r"install -d -o \w+ -g \w+((?: /\S+)+)", text)
        self.owned = {path for group in made for path in group.split()}

    def _last(self, instruction: str) -> str:
        return [rest for word, rest in self.lines if word == instruction][-1]

    def copies(self) -> Iterator[tuple[str, str]]:
        """Each file or folder of the checkout, and where it is in the image."""
        for rest in (rest for word, rest in self.lines if word == "COPY"):
            *sources, target = rest.split()
            for source in sources:
                yield source, target + Path(source).name if target.endswith("/") else target


class Hosts:
    """The compose file's services as hosts: started as they depend on each other, asked, and ended together."""

    def __init__(self, folder: Path, model: Mapping[str, Any]) -> None:
        self.folder = folder
        self.services: Mapping[str, Any] = model["services"]
        self.images = {
            each["build"]["dockerfile"]: Image(Path(each["build"]["context"]) / each["build"]["dockerfile"])
            for each in self.services.values()
        }
        for image in self.images.values():
            user = Path(image.home).name
            line = f"{user}:x:{image.user}:{image.group}::{image.home}:/bin/bash\n"
            (folder / f"{user}.passwd").write_text(Path("/etc/passwd").read_text() + line)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.done: set[str] = set()
        self.address = {name: f"10.0.0.{number}" for number, name in enumerate(self.services, 1)}
        (folder / "hosts").write_text(
            "127.0.0.1 localhost\n" + "".join(f"{address} {name}\n" for name, address in self.address.items())
        )
        words = "ip link add switch type bridge && ip link set switch up && exec sleep infinity"
        self.switch = subprocess.Popen([*WITH_US, "unshare", "--net", "sh", "-c", words])

    def up(self, *names: str) -> None:
        """Start these and what they depend on; return when each is as others may depend on it."""
        for name in names:
            if name in self.running or name in self.done:
                continue
            for other in self.services[name].get("depends_on", {}):
                self.up(other)
            self.start(name)
        for name in names:
            self.wait_for(name)

    def start(self, name: str, *command: str) -> None:
        """As `docker compose up --no-deps`; with another command in the place of its entry point's."""
        image, service = self._image(name), self.services[name]
        root = self.folder / "roots" / name
        root.mkdir(parents=True, exist_ok=True)
        plan = self.folder / f"{name}.plan"
        plan.write_text("".join(" ".join(line) + "\n" for line in self._plan(name)))
        words = [*WITH_US, "unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "bash"]
        words += [str(Path(__file__).with_name("container.sh")), str(root), str(plan), service.get("hostname", name)]
        words += [str(image.user), str(image.group), *(command or [*image.entrypoint, *service["command"]])]
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                words, env=self._environ(name), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        self.running[name] = process
        self._plug(name, process.pid)
        while process.poll() is None and not self._is_inside(name):
            time.sleep(0.02)

    def wait_for(self, name: str, seconds: float = 180) -> None:
        """Until it is well, or has ended well if it has no check."""
        service, deadline = self.services[name], time.monotonic() + seconds
        while name not in self.done:
            ended = self.running[name].poll()
            if ended is None and service.get("healthcheck") and self.is_well(name):
                return
            if ended == 0 and not service.get("healthcheck"):
                self.done.add(name)
                del self.running[name]
            elif ended is not None or time.monotonic() > deadline:
                raise AssertionError(f"{name} is not well (ended: {ended}):\n{self.log(name)}")
            time.sleep(0.3)

    def is_well(self, name: str) -> bool:
        """What its health check says."""
        kind, *words = self.services[name]["healthcheck"]["test"]
        assert kind == "CMD"
        return self.execute(name, *words, check=False).returncode == 0

    def execute(self, name: str, *words: str, check: bool = True, **environ: str) -> subprocess.CompletedProcess[str]:
        """As `docker compose exec`."""
        image, first = self._image(name), self.first_process(name)
        inside = ["nsenter", f"--target={first}", "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wd=/"]
        inside += ["setpriv", f"--reuid={image.user}", f"--regid={image.group}", "--clear-groups", "--inh-caps=-all"]
        inside += ["--bounding-set=-all", "--no-new-privs", "env", f"--chdir={image.home}", *words]
        done = subprocess.run(
            inside, capture_output=True, text=True, check=False, timeout=900, env=self._environ(name) | environ
        )
        if check and done.returncode:
            raise AssertionError(f"{name}: {shlex.join(words)}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def first_process(self, name: str) -> int:
        """The number, on this machine, of the process that is number 1 there; the host is gone when it ends."""
        listed = subprocess.run(
            ["pgrep", "-P", str(self.running[name].pid)], capture_output=True, text=True, check=False
        )
        return int(listed.stdout or 0)

    def log(self, name: str) -> str:
        """The end of what it said."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-3000:]

    def stop(self, name: str, seconds: float = 30) -> int:
        """As `docker compose stop`; its exit status."""
        process = self.running.pop(name)
        if process.poll() is None:
            subprocess.run(["pkill", "-TERM", "-P", str(process.pid)], check=False)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()

    def down(self) -> None:
        """End all of it at once."""
        for process in [*self.running.values(), self.switch]:
            process.kill()
            process.wait()

    def _image(self, name: str) -> Image:
        return self.images[self.services[name]["build"]["dockerfile"]]

    def _environ(self, name: str) -> dict[str, str]:
        image = self._image(name)
        path = f"{sys.prefix}/bin:{PATHS}" if "apache/airflow" in image.base else PATHS
        # PYTHONPATH, for there is no `pip install` here.
        own = {"HOME": image.home, "PATH": path, "PYTHONPATH": "/opt/gym"}
        return own | image.environ | self.services[name].get("environment", {})

    def _plan(self, name: str) -> Iterator[tuple[str, str, str, str]]:
        image, service = self._image(name), self.services[name]
        for path in ("/usr", "/etc", "/sys"):
            yield "bind", path, path, "ro"
        for path in ("/bin", "/lib", "/lib64", "/sbin"):
            yield "link", f"usr{path}", path, "-"
        for path in ("/dev", "/dev/pts"):
            yield "bind", path, path, "rw"
        for path in ("/dev/shm", "/tmp", "/var/tmp", "/run"):
            yield "tmpfs", "-", path, "mode=1777"
        yield "tmpfs", "-", image.home, f"uid={image.user},gid={image.group},mode=0755"
        for path in {sys.prefix, sys.base_prefix} if "apache/airflow" in image.base else ():
            yield "bind", path, path, "ro"
        yield "bind", str(self.folder / f"{Path(image.home).name}.passwd"), "/etc/passwd", "ro"
        yield "bind", str(self.folder / "hosts"), "/etc/hosts", "ro"
        for source, target in image.copies():
            yield "bind", str(REPO / source), target, "ro"
        yield from self._mounts(image, service)

    def _mounts(self, image: Image, service: Mapping[str, Any]) -> Iterator[tuple[str, str, str, str]]:
        mounts = [
            ("bind", self._source(image, each), each["target"], "ro" if each.get("read_only") else "rw")
            for each in service.get("volumes", ())
        ]
        for each in service.get("tmpfs", ()):
            target, _, options = each.partition(":")
            mounts.append(("tmpfs", "-", target, f"{TMPFS},{options}".rstrip(",")))
        yield from sorted(mounts, key=lambda mount: mount[2])  # a folder before what lies in it

    def _source(self, image: Image, mount: Mapping[str, Any]) -> str:
        if mount["type"] == "bind":
            return mount["source"]
        volume = self.folder / "volumes" / mount["source"]
        if not volume.exists():
            volume.mkdir(parents=True)
            if mount["target"] in image.owned:
                os.chown(volume, image.user, image.group)
            for path in sorted(image.owned):
                if path.startswith(mount["target"] + "/"):
                    inside = volume / Path(path).relative_to(mount["target"])
                    inside.mkdir()
                    os.chown(inside, image.user, image.group)
        return str(volume)

    def _is_inside(self, name: str) -> bool:
        """Whether its first process has its own root folder, and all mounts with it."""
        with suppress(FileNotFoundError):  # it has just ended
            first = self.first_process(name)
            return first > 0 and Path(f"/proc/{first}/root").readlink() != Path("/")
        return False

    def _plug(self, name: str, pid: int) -> None:
        """A cable from the switch, as docker/cluster/machines.sh lays it."""
        own = Path("/proc/self/ns/net").readlink()
        deadline = time.monotonic() + 20
        for each in (self.switch.pid, pid):
            while Path(f"/proc/{each}/ns/net").readlink() == own:
                assert time.monotonic() < deadline, f"{name} got no network"
                time.sleep(0.02)
        at_switch, at_host = f"nsenter --net=/proc/{self.switch.pid}/ns/net", f"nsenter --net=/proc/{pid}/ns/net"
        cable = f"cable{list(self.services).index(name)}"
        script = f"""
            until {at_switch} ip link show switch up | grep -q switch; do sleep 0.02; done
            {at_switch} ip link add {cable} type veth peer name eth0 netns {pid}
            {at_switch} ip link set {cable} master switch up
            {at_host} ip link set lo up
            {at_host} ip address add {self.address[name]}/24 dev eth0
            {at_host} ip link set eth0 up"""
        subprocess.run(["bash", "-ec", script], check=True, timeout=20, stdout=subprocess.DEVNULL)


@contextmanager
def hosts(folder: Path) -> Iterator[Hosts]:
    """The hosts of docker/compose.yaml, none of them started yet, in an empty folder."""
    folder.chmod(0o755)
    found = Hosts(folder, composed())
    try:
        yield found
    finally:
        found.down()
        shutil.rmtree(folder / "volumes", ignore_errors=True)
