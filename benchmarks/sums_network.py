"""Encrypted sums over the network: bytes on the wire and processor time of real sites, Flower included.

A federation of real processes over TLS on the loopback address sums the moments of a table with very many
columns. Half of the sites are key holders too. Every site connects through a forwarder of its own, which
counts what passes, so that the bytes are those of the wire, with Flower's and TLS's own. Processor time is
that of all processes of a site, from ``/proc``; those that answer one message and end are looked at every 20
milliseconds, so that the last of their seconds may be missed. The opened sum is compared with the plain one.
"""

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.data import FULL, QUICK, Sizes
from benchmarks.federation_flower import PATIENCE, _start, _wait
from benchmarks.load_processes import ProcessWatch
from benchmarks.timing import Row
from onefold.exceptions import FederationError, OnefoldError
from onefold.federated import HolderKey, SchemaSum, SumParties
from onefold.federated.access.signatures import SigningKey
from onefold.tables import Field, Schema, read_table

# By columns p: p (p + 1) / 2 second moments of all classes together, two sums of p, and two counts.
COLUMNS = {"about 1e5": 445, "about 1e6": 1412}
SITES, HOLDERS, THRESHOLD = 10, 5, 3
ROWS = 300  # of each site
IDLE = 20.0  # seconds for which a federation that has nothing to do is looked at
STEP = 1800.0  # seconds that a site has for one step: the machine may be busy
BLOCK = 2**16


def rows(sizes: Sizes) -> list[Row]:
    """About 10^5 numbers at ten sites; 10^6 too if asked for the largest sizes."""
    try:
        import flwr  # noqa: F401
    except ImportError:
        print("sums_network: no Flower here (extra federated): left out", file=sys.stderr)
        return []
    if sizes is QUICK:
        return measured(20, 3, 3, 2)
    columns = COLUMNS.values() if sizes is FULL else [COLUMNS["about 1e5"]]
    return [row for p in columns for row in measured(p, SITES, HOLDERS, THRESHOLD)]


def measured(n_columns: int, n_sites: int, n_holders: int, threshold: int) -> list[Row]:
    """One round from an approved contract to the opened sum."""
    with TemporaryDirectory() as folder:
        world = World(Path(folder), n_columns, n_sites, n_holders, threshold)
        try:
            found = world.run()
        finally:
            world.close()
    _say(f"measured {found}")  # a larger round may not get as far
    title = f"{found['numbers']} numbers, {n_sites} sites over Flower, {threshold} of {n_holders} holders"
    plain = 8 * found["numbers"]
    return [
        Row(f"{title}: bytes a site sends / 8 per number", found["site sends"] / plain, None, found),
        Row(
            f"{title}: bytes a site that is a holder gets / 8 per number", found["holder gets"] / plain, None
        ),
    ]


class World:
    """A federation whose sites are ready for a sum, and one round of it."""

    def __init__(self, root: Path, n_columns: int, n_sites: int, n_holders: int, threshold: int) -> None:
        from onefold.federated.flower import Federation, Site
        from onefold.federated.flower.processes import free_port

        self.names = [f"site{number}" for number in range(1, n_sites + 1)]
        self.holders = self.names[:n_holders]
        keys = [HolderKey.new(name) for name in self.holders]
        for key in keys:
            key.save(root / f"{key.name}.key")
        label = Field("ill", "string", "label", levels=("no", "yes"))
        numbers = [Field(f"x{number}", low=0, high=1) for number in range(n_columns)]
        self.schema = Schema((*numbers, label), rows_about=ROWS * n_sites)
        self.tables = {name: root / f"{name}.csv" for name in self.names}
        for number, path in enumerate(self.tables.values()):
            _write_table(path, n_columns, number)
        parties = SumParties(tuple(self.names), tuple(key.public for key in keys), threshold, missing_sites=1)
        self.summed = SchemaSum("round", parties, self.schema, "moments", 1.0)
        self.share = root / "share"
        self.share.mkdir()
        self.querier = SigningKey.create("ward", root / "querier")

        self.root, port = root / "federation", free_port()
        self.federation = Federation.create(self.root, self.names, port=port)
        self.sites = {name: Site(self.root / "sites" / name) for name in self.names}
        self.meters: dict[str, Meter] = {}
        for name, site in self.sites.items():
            self.meters[name] = Meter(port)
            key_file = {"sum_key": root / f"{name}.key"} if name in self.holders else {}
            site.configure(sum_table=self.tables[name], **key_file)
            replace(site.settings, port=self.meters[name].port).save(site.folder.settings_file)
        self.running: list[subprocess.Popen[bytes]] = []

    def run(self) -> dict[str, Any]:
        """Start everything, have the data owners approve, and measure the round."""
        from onefold.federated.flower import SumRound
        from onefold.federated.flower.spool import Spool
        from onefold.federated.flower.summing import decide_sum

        folder = self.federation.folder
        spool = Spool(folder.spool)
        self.running.append(_start("server", "--folder", str(folder.root)))
        _wait(lambda: spool.status() is not None)
        for name in self.names:
            self.running.append(_start("site", "--folder", str(self.sites[name].folder.root)))
        deadline = time.monotonic() + PATIENCE * len(self.names)
        while set(spool.status() or ()) != set(self.names):
            if time.monotonic() > deadline:
                raise OnefoldError("the sites did not connect in time")
            time.sleep(0.2)
        round_ = SumRound(folder, self.summed, self.share, self.querier, timeout=STEP, say=_say)
        with suppress(FederationError):  # all sites wait for their data owners
            round_.run()
        for site in self.sites.values():
            decide_sum(site.folder, "ward", "round", approve=True)

        watch = ProcessWatch(self.root, 0.5)
        try:
            idle = self._during(watch, lambda: time.sleep(IDLE))
            spent = self._during(watch, lambda: setattr(self, "opened", round_.run(wait=STEP)))
        finally:
            watch.close()
        self._check()
        return self._found(idle, spent, watch)

    def _during(self, watch: ProcessWatch, work: Any) -> dict[str, Any]:
        """Seconds, processor seconds of each side, and bytes of each site while something is done."""
        time.sleep(1.0)  # a look at every process has just been taken
        before, start = watch.cpu_of_sides(), time.monotonic()
        bytes_before = {name: (meter.sent, meter.got) for name, meter in self.meters.items()}
        work()
        seconds = time.monotonic() - start
        time.sleep(1.0)
        cpu = {side: value - before.get(side, 0.0) for side, value in watch.cpu_of_sides().items()}
        passed = {
            name: (meter.sent - bytes_before[name][0], meter.got - bytes_before[name][1])
            for name, meter in self.meters.items()
        }
        return {"seconds": seconds, "cpu": cpu, "bytes": passed}

    def _check(self) -> None:
        """Report no costs of a wrong sum: what differs from the plain one is noise, and nothing else."""
        plain = sum(self.summed.vector(read_table(path, schema=self.schema)) for path in self.tables.values())
        blocks = self.summed.total.contract.blocks
        sigma = np.concatenate([np.full(block.length, block.sigma) for block in blocks])
        if not np.all(np.abs(self.opened.vector - plain) < 8 * np.sqrt(2) * sigma):
            raise OnefoldError("the opened sum is wrong")

    def _found(self, idle: dict[str, Any], spent: dict[str, Any], watch: ProcessWatch) -> dict[str, Any]:
        others = [name for name in self.names if name not in self.holders] or self.names
        messages = [self.share / f"round.{name}.sum" for name in self.names]

        def most(names: Iterable[str], place: int) -> int:
            return max(int(spent["bytes"][name][place]) for name in names)

        return {
            "numbers": self.summed.total.contract.length,
            "message of a site": max(path.stat().st_size for path in messages),
            "site sends": most(others, 0),
            "site gets": most(others, 1),
            "holder sends": most(self.holders, 0),
            "holder gets": most(self.holders, 1),
            "site CPU s": float(np.mean([spent["cpu"][name] for name in others])),
            "holder CPU s": float(np.mean([spent["cpu"][name] for name in self.holders])),
            "server CPU s": spent["cpu"].get("server", 0.0),
            "seconds of the round": spent["seconds"],
            "idle site CPU s per minute": 60.0
            * float(np.mean([idle["cpu"][name] for name in self.names]))
            / idle["seconds"],
            "idle site bytes per minute": 60.0
            * float(np.mean([sum(idle["bytes"][name]) for name in self.names]))
            / idle["seconds"],
            "idle server CPU s per minute": 60.0 * idle["cpu"].get("server", 0.0) / idle["seconds"],
            "largest process of a site MiB": watch.largest(of_server=False),
            "largest process of the server MiB": watch.largest(of_server=True),
        }

    def close(self) -> None:
        """Stop what runs."""
        for process in reversed(self.running):
            process.send_signal(signal.SIGTERM)
        for process in self.running:
            process.wait(PATIENCE)
        for meter in self.meters.values():
            meter.close()


class Meter:
    """Forwards connections to a port of this machine, and counts the bytes in both directions."""

    def __init__(self, port: int) -> None:
        self.sent = self.got = 0  # by the site
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Take no more connections; those that are open end with their site."""
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                site, _ = self._listener.accept()
            except OSError:  # closed
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # the server is not there: the site tries again
                site.close()
                continue
            for source, target, kind in ((site, server, "sent"), (server, site, "got")):
                threading.Thread(target=self._pass_on, args=(source, target, kind), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, kind: str) -> None:
        with suppress(OSError):
            while content := source.recv(BLOCK):
                target.sendall(content)
                setattr(self, kind, getattr(self, kind) + len(content))
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _write_table(path: Path, n_columns: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ill = rng.random(ROWS) < 0.5
    numbers = np.clip(0.4 + 0.2 * ill[:, None] + 0.1 * rng.standard_normal((ROWS, n_columns)), 0, 1)
    with path.open("w") as file:
        file.write(",".join([*(f"x{number}" for number in range(n_columns)), "ill"]) + "\n")
        for row, label in zip(numbers, ill, strict=True):
            file.write(",".join(f"{cell:.4f}" for cell in row) + f",{'yes' if label else 'no'}\n")


def _say(line: str) -> None:
    print(f"sums_network: {line}", file=sys.stderr, flush=True)
