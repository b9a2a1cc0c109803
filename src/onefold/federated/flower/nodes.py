"""A server and a site as a whole: Flower's SuperLink and SuperNode, started, watched and stopped in order."""

import errno
import json
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from onefold._base.files import has_room, is_disk_full, make_folder, open_file, write_whole
from onefold._base.optional import require
from onefold.exceptions import FederationError, InvalidInputError
from onefold.federated.flower.admission import approvals_of
from onefold.federated.flower.folders import ServerFolder, SiteFolder, address, is_loopback, private_folder
from onefold.federated.flower.keeping import find_profile, settle
from onefold.federated.flower.launch import CONNECTED, END_OF_ANSWER
from onefold.federated.flower.life import SECONDS, LifeSign, Watchdog, born
from onefold.federated.flower.processes import (
    CONNECTION,
    Process,
    ServerState,
    clock_ahead,
    command,
    free_port,
    look_at,
    make_environment,
    wait_until,
    write_connection,
)
from onefold.federated.flower.registry import Registry, RegistryEntry, Status
from onefold.federated.flower.spool import Spool
from onefold.federated.flower.summing import sum_approvals_of

# --- the server ---------------------------------------------------------------------------------------------


START_SECONDS = 120.0
RUN_SECONDS = 120.0
COMMAND_SECONDS = 120.0
MOST_FAILURES = 3
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # where this machine is found then


class ServerNode:
    """A running server of a federation; leaving the ``with`` block stops everything it started.

    Parameters
    ----------
    folder : made by ``onefold federate init``.
    bind : address to listen on; by default all of this machine's, or the host if that is a loopback address.
    say : is told what happens, in single lines.
    """

    def __init__(
        self,
        folder: ServerFolder,
        bind: str | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        require("flwr", "federated")
        self.folder = folder
        self.settings = folder.settings
        self.bind = bind or (self.settings.host if is_loopback(self.settings.host) else "0.0.0.0")
        if self.settings.insecure and not is_loopback(self.bind):
            raise InvalidInputError("plaintext is for tests on this machine: listen on 127.0.0.1 only")
        self.registry = Registry(folder)
        self.spool = Spool(folder.spool)
        # Sites that the SuperLink knows, their keys, and keys it knew; it forgets them when it ends.
        self._nodes: dict[str, int] = {}
        self._keys: dict[str, str] = {}
        self._used_keys: set[str] = set()
        self._seen = -1
        self._failures = 0
        self._say = say
        self._is_full = False
        self.restarts = 0
        self._watchdog = Watchdog(self.spool, lambda pid: self._process.has(pid))
        made = (folder.ca, folder.certificate, folder.key)
        folder.require_files(dict.fromkeys(made, "start with onefold federate init"))

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def near(self) -> str:
        """Where this machine finds its own SuperLink."""
        return EVERYWHERE.get(self.bind, self.bind)

    def start(self) -> None:
        """Start the SuperLink, register the sites' keys, and start the run."""
        ca = self.folder.authority
        if look_at(self.near, self.settings.port, ca) is not ServerState.ABSENT:
            raise FederationError(f"port {self.settings.port} is in use already")
        self._environment = make_environment(self.folder)
        for known in (self._nodes, self._keys, self._used_keys):
            known.clear()
        write_connection(self.folder, address(self.near, self.settings.port))
        self._process = Process(self._arguments(), self._environment, self.folder.process_log)
        try:
            wait_until(
                lambda: look_at(self.near, self.settings.port, ca) is ServerState.READY,
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
            sign = self.spool.life()
            self._tell_of_disk(sign is not None and sign.is_full)
            self._failures = 0
        except (FederationError, OSError) as error:
            # Flower's command does not say why it failed: on a full disk everything may.
            if is_disk_full(error) or not has_room(self.folder.state):
                self._tell_of_disk(True)
                return
            self._failures += 1
            if self._failures > MOST_FAILURES:
                raise

    def _follow(self) -> None:
        if self.registry.stamp() != self._seen:
            self.synchronise()
        sign, why = self.spool.life(), self._watchdog.why_replace()
        if why is not None:
            self._note(f"the run at the server is started again: {why}")
            if sign is not None and sign.pid is not None:
                self._process.end(sign.pid)
            self.start_run()
            self.restarts += 1

    def _tell_of_disk(self, is_full: bool) -> None:
        if is_full != self._is_full:
            full = f"the disk is full ({self.folder.state}): waiting; it goes on by itself when there is room"
            self._note(full if is_full else "there is room on the disk again: going on")
        self._is_full = is_full

    @property
    def is_disk_full(self) -> bool:
        """Whether the disk was full when it was last looked at."""
        return self._is_full

    def _note(self, line: str) -> None:
        """Tell whoever runs the server, and the log of the run."""
        self._say(line)
        when = datetime.now().isoformat(sep=" ", timespec="milliseconds").replace(".", ",")
        with suppress(OSError), open_file(self.folder.run_log, "a") as log:
            log.write(f"{when} WARNING {line}\n")

    def start_run(self) -> None:
        """Start the run that carries the queries and wait for its sign of life."""
        app = copy_app(self.folder.app)
        self._watchdog.reset()
        self.spool.open_run()
        self._control(["run", str(app), CONNECTION])
        wait_until(
            lambda: self.spool.status() is not None,
            RUN_SECONDS,
            "the run at the server did not start",
            self._process,
        )

    def synchronise(self) -> None:
        """Let in the keys of those who are invited, and of those who were removed, to tell them so."""
        stamp = self.registry.stamp()
        if self.settings.insecure:
            self._seen = stamp
            return
        wanted = _let_in(self.registry.sites.values())
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
            if not has_room(self.folder.state):  # it could be stopped and not started
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder.state))
            self.stop()
            self.start()
            return
        self._register(new)
        self._seen = stamp  # as it was before our own changes: the next look may find others made meanwhile

    def _register(self, sites: Sequence[RegistryEntry]) -> None:
        keys = private_folder(self.folder.state / "keys")
        for site in sites:
            write_whole(keys / f"{site.name}.pub", f"{site.public_key}\n".encode("ascii"))
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
        with open_file(self.folder.process_log, "a") as log:
            log.write(done.stdout + done.stderr)
        what = " ".join(calls[0][:2])
        raise FederationError(f"flwr {what} failed, see {self.folder.process_log}")

    def _arguments(self) -> Sequence[str]:
        # No --database: queries and answers never touch the disk, and our own registry knows the sites.
        own = ["--host", self.bind, "--port", str(self.settings.port)]
        own.append("--disable-runtime-dependency-installation")
        if self.settings.insecure:
            return command("flower-superlink", "--insecure", *own)
        paths = {"--ssl-ca-certfile": self.folder.ca, "--ssl-certfile": self.folder.certificate}
        tls = [text for name, path in paths.items() for text in (name, str(path.resolve()))]
        tls += ["--ssl-keyfile", str(self.folder.key.resolve()), "--enable-supernode-auth"]
        return command("flower-superlink", *tls, *own)


def _let_in(sites: Iterable[RegistryEntry]) -> dict[str, RegistryEntry]:
    """Sites whose keys may connect: one that was removed only to be told, unless another has its key now."""
    known = list(sites)
    keys = {site.public_key for site in known if site.status is not Status.REMOVED}
    return {s.name: s for s in known if s.status is not Status.REMOVED or s.public_key not in keys}


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


# --- a site -------------------------------------------------------------------------------------------------


# For a server that does not say why.
KEPT_OUT_REASON = "it does not fit the other sites; onefold federate status there tells the reason"
# A site that died is still taken to be there for a while, and not let in a second time until then; and a
# server that starts takes a while to know its sites.
GIVE_UP_SECONDS = 300.0
PAUSE = 2.0
# A server that is just stopping may say anything for a moment.
MOST_OTHERS = 5
# Seconds that the clocks of a site and of its server may differ; the server's is told to a second.
MOST_AHEAD, MOST_BEHIND = 4.0, 300.0


class Node:
    """A running site; leaving the ``with`` block stops everything it started.

    Parameters
    ----------
    folder : made by ``onefold federate init``, with a model in it or a part in encrypted sums
        (:meth:`Site.serve` checks that).
    say : is told what happens, in single lines.
    give_up : after how many seconds of being refused.
    """

    def __init__(
        self,
        folder: SiteFolder,
        say: Callable[[str], None] = lambda _: None,
        give_up: float = GIVE_UP_SECONDS,
    ) -> None:
        require("flwr", "federated")
        self.folder = folder
        self.settings = folder.settings
        self.say, self.give_up = say, give_up
        self._process: Process | None = None
        self._refused_since: float | None = None
        self._was_connected = False
        self._signed = 0.0  # when the last sign of life was given
        self._said_absent = False
        self._others = 0
        self._waiting: list[str] = []
        # When the profile was written, and what it told the server when the site connected.
        self._profile = find_profile(self.folder)
        make = 'make one with ssh-keygen -t ecdsa -b 384 -N "" -f node.key'
        folder.require_files(
            {
                folder.ca: "ask the server's operator for the folder of this site",
                folder.key: f"{make} and have the server's operator add node.key.pub",
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """Process id of the SuperNode."""
        return None if self._process is None else self._process.pid

    @property
    def is_connected(self) -> bool:
        """Whether the server has let the site in."""
        return self._process is not None and self._process.is_running and CONNECTED in self._process.output()

    def check(self) -> None:
        """To be called every second or so: start Flower's part, or start it again."""
        self._give_sign()
        if self._process is not None and self.folder.kept_out.exists():
            reason = self.folder.kept_out.read_text(encoding="utf-8") or KEPT_OUT_REASON
            raise FederationError(f"the server keeps this site out: {reason}")
        if self._process is not None and self._process.is_running:
            self._tell_who_waits()
            if self._is_fitted_anew():
                self.say("fitted anew; connecting again, so that the server takes what is new")
                self._process.stop()
                self._was_connected, self._process = False, None
                return
            if not self._was_connected and self.is_connected:
                self._was_connected, self._refused_since = True, None
                self.say("connected; waiting for queries")
            return
        if self._process is not None:
            self._note_ending()
        self._was_connected, self._process = False, None
        if self._is_server_there():
            environment = make_environment(self.folder)
            self.folder.kept_out.unlink(missing_ok=True)
            settle(self.folder)
            self._profile = find_profile(self.folder)
            self._process = Process(self._arguments(), environment, self.folder.process_log)

    def _give_sign(self) -> None:
        """Leave a sign of life for whoever looks at the folder, and whether the server let the site in."""
        now = time.time()
        if abs(now - self._signed) >= SECONDS:
            self._signed = now
            there = (self.settings.name,) if self._was_connected else ()
            LifeSign(now, there, os.getpid(), born(os.getpid())).leave(self.folder.alive)

    def _tell_who_waits(self) -> None:
        """Tell the data owner that a querier waits; once for each change of who waits."""
        of_sums = [entry for entry in sum_approvals_of(self.folder).entries() if entry.asked]
        waiting = sorted(
            {entry.querier.name for entry in approvals_of(self.folder).entries() if entry.asked}
            | {f"{entry.querier.name} for an {(entry.purpose or '').partition(',')[0]}" for entry in of_sums}
        )
        if waiting and waiting != self._waiting:
            where = f"onefold federate approvals list --folder {self.folder.root}"
            self.say(f"waiting for your approval: {', '.join(waiting)} ({where})")
        self._waiting = waiting

    def _is_fitted_anew(self) -> bool:
        """Whether the site has another model or other sums than when it connected."""
        before, self._profile = self._profile, find_profile(self.folder)
        if before is None or self._profile is None:
            return before is not self._profile
        return before.to_bytes() != self._profile.to_bytes()

    def stop(self) -> None:
        """Leave the server and end everything."""
        if self._process is not None:
            self._process.stop()
        self.folder.alive.unlink(missing_ok=True)

    def _note_ending(self) -> None:
        """The SuperNode ended by itself: wait a little, and give up when it is never let in."""
        assert self._process is not None
        self._process.stop()
        now = time.monotonic()
        if self._refused_since is None or self._was_connected:
            self._refused_since = now
            self.say(f"not let in, or connection lost{self._wrong_clock()}; trying again")
        if now - self._refused_since > self.give_up:
            raise FederationError(
                "the server does not let this site in: its key is not registered, it was removed, or it runs "
                f"elsewhere already{self._wrong_clock()}"
            )
        time.sleep(PAUSE)

    def _wrong_clock(self) -> str:
        """Flower takes signatures that are some minutes old or a few seconds in the future, and no others."""
        ahead = clock_ahead(self.settings.host, self.settings.port, self.folder.authority)
        if -MOST_BEHIND < ahead < MOST_AHEAD:
            return ""
        side = "ahead of" if ahead > 0 else "behind"
        return f" (this machine's clock is {abs(ahead):.0f} s {side} the server's: set it right)"

    def _is_server_there(self) -> bool:
        """Look for the server, and refuse one that is not ours: Flower itself would try for ever."""
        finding = look_at(self.settings.host, self.settings.port, self.folder.authority)
        if finding is ServerState.ABSENT:
            self._refused_since = None
            if not self._said_absent:
                self.say(f"no server at {self.settings.host}:{self.settings.port} yet; waiting")
        self._said_absent = finding is ServerState.ABSENT
        if finding is ServerState.UNTRUSTED:
            raise FederationError("this is not our server: its certificate is not signed by ca.crt")
        self._others = self._others + 1 if finding is ServerState.OTHER else 0
        if self._others > MOST_OTHERS:
            raise FederationError("this is not our server: it does not speak as it should (TLS or plaintext)")
        return finding is ServerState.READY

    def _arguments(self) -> list[str]:
        own = ["--superlink", address(self.settings.host, self.settings.port)]
        own += ["--host", "127.0.0.1", "--port", str(free_port())]
        if self.settings.insecure:
            return command("flower-supernode", "--insecure", *own)
        secure = ["--root-certificates", str(self.folder.ca.resolve())]
        secure += ["--auth-supernode-private-key", str(self.folder.key.resolve())]
        return command("flower-supernode", *secure, *own)


# --- what Flower calls an app -------------------------------------------------------------------------------


def copy_app(folder: Path) -> Path:
    """Copy the app that names the run at the server into an existing folder."""
    package, source = folder / "onefold_federation", Path(__file__).parent / "run_app"
    make_folder(package)
    places = {"pyproject.toml": folder, "__init__.py": package, "apps.py": package}
    for name, place in places.items():
        write_whole(place / name, (source / name).read_bytes())
    return folder
