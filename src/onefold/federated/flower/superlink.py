"""The server as a whole: Flower's SuperLink, the sites' keys, and the run, started and stopped together."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import Any, Self

from onefold._base.optional import require
from onefold.exceptions import FederationError, InvalidInputError
from onefold.federated.flower.app_package import write_app
from onefold.federated.flower.connection import Finding, look_at
from onefold.federated.flower.environment import CONNECTION, command, make_environment, write_connection
from onefold.federated.flower.folders import ServerFolder, is_loopback, owner_only, private_folder
from onefold.federated.flower.launch import END_OF_ANSWER
from onefold.federated.flower.processes import Process, wait_until
from onefold.federated.flower.registry import Registry, RegistryEntry, Status
from onefold.federated.flower.spool import Spool

__all__ = ["Server"]

START_SECONDS = 120.0
RUN_SECONDS = 120.0
COMMAND_SECONDS = 120.0
SILENT_LOOKS = 5
MOST_FAILURES = 3
EVERYWHERE = ("0.0.0.0", "::")


class Server:
    """A running server of a federation; leaving the ``with`` block stops everything it started.

    Parameters
    ----------
    folder : made by ``onefold federate init``.
    bind : address to listen on; by default all of this machine's, or the host if that is a loopback address.
    """

    def __init__(self, folder: ServerFolder, bind: str | None = None) -> None:
        require("flwr", "federated")
        self.folder = folder
        self.settings = folder.settings
        self.bind = bind or (self.settings.host if is_loopback(self.settings.host) else EVERYWHERE[0])
        if self.settings.insecure and not is_loopback(self.bind):
            raise InvalidInputError("plaintext is for tests on this machine: listen on 127.0.0.1 only")
        self.registry = Registry(folder)
        self.spool = Spool(folder.spool)
        # Sites that the SuperLink knows, their keys, and keys it knew; it forgets them when it ends.
        self._nodes: dict[str, int] = {}
        self._keys: dict[str, str] = {}
        self._used_keys: set[str] = set()
        self._seen = -1
        self._silent = 0
        self._failures = 0
        self._check_files()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def near(self) -> str:
        """Where this machine finds its own SuperLink."""
        return (
            "127.0.0.1" if self.bind == EVERYWHERE[0] else "::1" if self.bind == EVERYWHERE[1] else self.bind
        )

    def start(self) -> None:
        """Start the SuperLink, register the sites' keys, and start the run."""
        ca = None if self.settings.insecure else self.folder.ca
        if look_at(self.near, self.settings.port, ca) is not Finding.ABSENT:
            raise FederationError(f"port {self.settings.port} is in use already")
        self._environment = make_environment(self.folder)
        for known in (self._nodes, self._keys, self._used_keys):
            known.clear()
        host = f"[{self.near}]" if ":" in self.near else self.near
        write_connection(self.folder, f"{host}:{self.settings.port}")
        self._process = Process(self._arguments(), self._environment, self.folder.process_log)
        try:
            wait_until(
                lambda: look_at(self.near, self.settings.port, ca) is Finding.READY,
                START_SECONDS,
                "the SuperLink did not start",
                self._process,
            )
            self.synchronise()
            self.start_run()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Let the run end, then everything else."""
        self.spool.close_run()
        self._process.stop()
        self.spool.close_run()  # the run may have given a last sign of life

    def check(self) -> None:
        """To be called every second or so: follow the registry, and start the run again if it has died."""
        if not self._process.is_running:
            raise FederationError(f"the SuperLink has ended, see {self.folder.process_log}")
        try:
            self._follow()
            self._failures = 0
        except FederationError:
            self._failures += 1
            if self._failures > MOST_FAILURES:
                raise

    def _follow(self) -> None:
        if self.registry.stamp() != self._seen:
            self.synchronise()
        # Several looks in a row: after a pause of the whole machine the sign of life is old for a moment.
        self._silent = 0 if self.spool.status() is not None else self._silent + 1
        if self._silent > SILENT_LOOKS:
            self.start_run()

    def start_run(self) -> None:
        """Start the run that carries the queries and wait for its sign of life."""
        app = write_app(self.folder.app)
        self._silent = 0
        self.spool.open_run()
        self._control(["run", str(app), CONNECTION])
        wait_until(
            lambda: self.spool.status() is not None,
            RUN_SECONDS,
            "the run at the server did not start",
            self._process,
        )

    def synchronise(self) -> None:
        """Let in the keys of those who are invited, and nobody else's."""
        stamp = self.registry.stamp()
        if self.settings.insecure:
            self._seen = stamp
            return
        sites = self.registry.sites.values()
        wanted = {site.name: site for site in sites if site.status is not Status.REMOVED}
        for name, node in list(self._nodes.items()):
            # A site that was removed and invited again has no number yet: its old one goes.
            if name not in wanted or wanted[name].node_id != node:
                self._control(["supernode", "unregister", str(node), CONNECTION])
                self._used_keys.add(self._keys.pop(name))
                del self._nodes[name]
        new = [site for site in wanted.values() if site.name not in self._nodes]
        if any(site.public_key in self._used_keys for site in new):
            # Flower never takes a key twice. It keeps its state in memory, so a new SuperLink does; the sites
            # come back by themselves.
            self.stop()
            self.start()
            return
        self._register(new)
        self._seen = stamp  # as it was before our own changes: the next look may find others made meanwhile

    def _register(self, sites: Sequence[RegistryEntry]) -> None:
        keys = private_folder(self.folder.state / "keys")
        for site in sites:
            (keys / f"{site.name}.pub").write_text(site.public_key + "\n", encoding="ascii")
        paths = {site.name: str(keys / f"{site.name}.pub") for site in sites}
        calls = [["supernode", "register", path, CONNECTION, "--name", name] for name, path in paths.items()]
        for site, answer in zip(sites, self._control(*calls), strict=True):
            self._nodes[site.name], self._keys[site.name] = int(answer["node-id"]), site.public_key
            self.registry.set_node(site.name, self._nodes[site.name])

    def _control(self, *calls: list[str]) -> list[dict[str, Any]]:
        """Run Flower's own command; its exit code says little, so its answers are read."""
        if not calls:
            return []
        lines = "".join(json.dumps([*call, "--format", "json"]) + "\n" for call in calls)
        done = subprocess.run(
            command("flwr"),
            env=self._environment,
            input=lines,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        answers = [_last_object(part) for part in done.stdout.split(END_OF_ANSWER)[:-1]]
        if len(answers) == len(calls) and all(answer.get("success") for answer in answers):
            return answers
        with self.folder.process_log.open("a", encoding="utf-8") as log:
            log.write(done.stdout + done.stderr)
        what = " ".join(calls[0][:2])
        raise FederationError(f"flwr {what} failed, see {self.folder.process_log}")

    def _arguments(self) -> Sequence[str]:
        # No --database: queries and answers never touch the disk, and our own registry knows the members.
        own = ["--host", self.bind, "--port", str(self.settings.port)]
        own.append("--disable-runtime-dependency-installation")
        if self.settings.insecure:
            return command("flower-superlink", "--insecure", *own)
        paths = {"--ssl-ca-certfile": self.folder.ca, "--ssl-certfile": self.folder.certificate}
        tls = [text for name, path in paths.items() for text in (name, str(path.resolve()))]
        tls += ["--ssl-keyfile", str(self.folder.key.resolve()), "--enable-supernode-auth"]
        return command("flower-superlink", *tls, *own)

    def _check_files(self) -> None:
        if self.settings.insecure:
            return
        for path in (self.folder.ca, self.folder.certificate, self.folder.key):
            if not path.is_file():
                raise InvalidInputError(f"{path}: no such file; start with onefold federate init")
        if not owner_only(self.folder.key):
            raise InvalidInputError(f"{self.folder.key}: others can read this key; chmod 600 it")


def _last_object(text: str) -> dict[str, Any]:
    """The last JSON object in some output; empty if there is none."""
    decoder = json.JSONDecoder()
    for start in reversed(
        [i for i, sign in enumerate(text) if sign == "{" and (i == 0 or text[i - 1] == "\n")]
    ):
        try:
            found, _ = decoder.raw_decode(text, start)
            return found if isinstance(found, dict) else {}
        except ValueError:
            continue
    return {}
