"""Memory and processor time of the processes of a federation, read from ``/proc`` while it runs."""

import os
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
PROGRAMS = ("flower-", "flwr-")
ANSWERING = "answer of a site (a process for each message)"


@dataclass
class Seen:
    """One process: what it is, whose, its memory at each look, and its processor seconds so far."""

    name: str
    since: float
    parent: int
    side: str = ""  # "server", or the name of a site
    times: list[float] = field(default_factory=list)
    mib: list[float] = field(default_factory=list)
    cpu: float = 0.0
    most: float = 0.0  # MiB at any look


class ProcessWatch:
    """Looks at every process of the folders below a root until it is closed.

    Parameters
    ----------
    root : folder of a federation. pause : seconds between two looks at memory.
    """

    def __init__(self, root: Path, pause: float) -> None:
        self._root, self._pause = str(root).encode(), pause
        self._own = Seen("querier (this process)", 0.0, 0)
        self._seen: dict[int, Seen] = {os.getpid(): self._own}
        self._others: set[int] = set()
        self._done = threading.Event()
        self._start = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._done.set()
        self._thread.join()

    def cpu(self) -> dict[str, float]:
        """Processor seconds so far, by kind of process."""
        found: dict[str, float] = {}
        for seen in list(self._seen.values()):
            if seen is not self._own:
                found[seen.name] = found.get(seen.name, 0.0) + seen.cpu
        return found

    def cpu_of_sides(self) -> dict[str, float]:
        """Processor seconds so far, of the server and of each site."""
        found: dict[str, float] = {}
        for seen in list(self._seen.values()):
            if seen is not self._own:
                found[seen.side] = found.get(seen.side, 0.0) + seen.cpu
        return found

    def largest(self, *, of_server: bool) -> float:
        """Most memory of one process, of the server or of any site, at any look, in MiB."""
        known = [seen for seen in list(self._seen.values()) if seen is not self._own]
        return max((seen.most for seen in known if (seen.side == "server") == of_server), default=0.0)

    def growth(self, start: float, end: float) -> list[dict[str, Any]]:
        """Memory of each process that lived through the middle and the last third of a time."""
        third = (end - start) / 3.0
        middle, last = start + third, start + 2.0 * third
        found = []
        for seen in list(self._seen.values()):
            times, mib = np.array(seen.times), np.array(seen.mib)
            inside = (times >= middle) & (times <= end)
            late = inside & (times >= last)
            early = inside & ~late
            if seen.since > middle or late.sum() < 3 or early.sum() < 3 or times[-1] < end - 2 * self._pause:
                continue
            slope = float(np.polyfit(times[inside], mib[inside], 1)[0])
            found.append(
                {
                    "process": seen.name,
                    "middle_third_mib": float(mib[early].mean()),
                    "last_third_mib": float(mib[late].mean()),
                    "ratio": float(mib[late].mean() / mib[early].mean()),
                    "mib_per_hour": 3600.0 * slope,
                }
            )
        return sorted(found, key=lambda each: -each["ratio"])

    def now(self) -> float:
        """Seconds since the watch began."""
        return time.monotonic() - self._start

    def _run(self) -> None:
        next_look = 0.0
        while not self._done.wait(0.02):
            if self.now() >= next_look:
                self._look()
                next_look = self.now() + self._pause
            self._look_at_answers()

    def _look(self) -> None:
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) not in self._others:
                self._read(int(entry))
        present = {int(entry) for entry in os.listdir("/proc") if entry.isdigit()}
        self._others &= present

    def _read(self, pid: int) -> None:
        try:
            seen = self._seen.get(pid) or self._recognise(pid)
            if seen is None:
                self._others.add(pid)
                return
            seen.cpu, pages = _numbers(pid)
        except OSError:  # gone
            return
        self._seen[pid] = seen
        seen.most = max(seen.most, pages * PAGE / 2**20)
        if seen.name != ANSWERING:
            seen.times.append(self.now())
            seen.mib.append(pages * PAGE / 2**20)

    def _recognise(self, pid: int) -> Seen | None:
        """What a process is, if it belongs to a folder of the federation."""
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
        words = [word.decode(errors="replace") for word in line.split(b"\0")]
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        places = [v for v in variables if v.startswith((b"ONEFOLD_SERVER=", b"ONEFOLD_SITE="))]
        parent = int(_stat(pid)[1])
        side = ""
        if any(self._root in place for place in places):
            side = "server" if places[0].startswith(b"ONEFOLD_SERVER=") else places[0].decode().split("/")[-1]
        elif self._root in line and "federate" in words:
            command = words[words.index("federate") + 1]
            place = next(word for word in words if self._root.decode() in word)
            side = "server" if command == "server" else place.rstrip("/").split("/")[-1]
            kind = "server: onefold" if command == "server" else "site: onefold"
            return Seen(kind, self.now(), parent, side)
        if not side:
            return None
        above = self._seen.get(parent)
        if above is not None and above.name.endswith("flower-superexec") and side != "server":
            return Seen(ANSWERING, self.now(), parent, side)
        program = next((word for word in words if word.startswith(PROGRAMS)), "other")
        return Seen(f"{'server' if side == 'server' else 'site'}: {program}", self.now(), parent, side)

    def _look_at_answers(self) -> None:
        """Processes that answer one message live shortly, and nobody adds up their seconds."""
        for pid, seen in list(self._seen.items()):
            if seen.name != "site: flower-superexec":
                continue
            try:
                for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                    known = self._seen.setdefault(int(child), Seen(ANSWERING, self.now(), pid, seen.side))
                    if known.name == ANSWERING:
                        known.cpu, pages = _numbers(int(child))
                        known.most = max(known.most, pages * PAGE / 2**20)
            except OSError:
                continue


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()


def _numbers(pid: int) -> tuple[float, int]:
    """Processor seconds of a process, and of those it has waited for; pages in memory."""
    fields = _stat(pid)
    return sum(map(int, fields[11:15])) / TICKS, int(fields[21])
