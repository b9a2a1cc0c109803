"""The sign of life of the run at the server: that it is there, what it is doing, and how fast queries go.

A thread of the run writes it every second, also while one step takes long. On a full disk it is written over
the old one, which takes no room. Whoever asks reads it, and the server's watchdog asks before it ends a run.
"""

import json
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from onefold._base.files import is_disk_full, open_file
from onefold._base.foreign import NOT_READABLE, parse_json
from onefold.federated.flower.folders import QUEUE

SECONDS = 1.0  # between two signs
SILENCE = 15.0  # a sign older than this says nothing any more
BLOCK = 4096  # the file has whole blocks, so that another sign fits into its place
PACE_SECONDS = 60.0


@dataclass(frozen=True)
class LifeSign:
    """What the run tells about itself.

    Parameters
    ----------
    time : when it was written. online : sites that are connected. pid, born : the process of the run, and
        when it began, as the system tells it: another process may get its number later.
    doing, busy : what it is doing, and for how many seconds the step has been going on.
    pace : queries that came to an end per second, lately; None if none did.
    queue : how many may wait or be on their way. is_full : whether the disk is full.
    run : the run that wrote it; another may have taken its place.
    """

    time: float
    online: tuple[str, ...] = ()
    pid: int | None = None
    born: str | None = None
    doing: str = ""
    busy: float = 0.0
    pace: float | None = None
    queue: int = QUEUE
    is_full: bool = False
    run: str = ""

    @property
    def is_fresh(self) -> bool:
        """Whether it was written a short while ago."""
        return abs(time.time() - self.time) < SILENCE

    @property
    def is_there(self) -> bool:
        """Whether the process that wrote it has not ended, as far as this process can see."""
        return self.pid is not None and self.born is not None and born(self.pid) == self.born


def born(pid: int) -> str | None:
    """When a process began, by the system's own count; None if it has ended or this cannot be told."""
    try:
        about = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if about[0] in (b"Z", b"X") else about[19].decode()
    except (OSError, IndexError):
        return None


def write_sign(path: Path, sign: LifeSign) -> bool:
    """Write a sign in the place of the last one, and return whether there was room for it.

    It need not reach the disk, every second of the day.
    """
    text = json.dumps(asdict(sign), allow_nan=False).encode()
    content = text.ljust(-(-len(text) // BLOCK) * BLOCK)
    part = path.with_suffix(".part")
    try:
        with open_file(part, "wb") as file:
            file.write(content)
        part.replace(path)
        return True
    except OSError as error:  # a full disk: over the old one, in one piece
        with suppress(OSError):
            part.unlink(missing_ok=True)
        with suppress(OSError), path.open("r+b", buffering=0) as file:
            if os.fstat(file.fileno()).st_size >= len(content):
                file.write(content.ljust(os.fstat(file.fileno()).st_size))
        with suppress(OSError):
            os.utime(path)  # where even that takes room
        return not is_disk_full(error)


def read_sign(path: Path) -> LifeSign | None:
    """Read what :func:`write_sign` wrote; None if there is none, or not one of ours."""
    for _ in range(3):  # it may be written just now
        try:
            plain = parse_json(path.read_bytes())
            written = max(float(plain["time"]), path.stat().st_mtime)
            return LifeSign(
                written,
                tuple(map(str, plain["online"])),
                _or_none(int, plain.get("pid")),
                _or_none(str, plain.get("born")),
                str(plain.get("doing", "")),
                float(plain.get("busy", 0.0)),
                _or_none(float, plain.get("pace")),
                int(plain.get("queue", QUEUE)),
                bool(plain.get("is_full", False)),
                str(plain.get("run", "")),
            )
        except FileNotFoundError:
            return None
        except NOT_READABLE:
            time.sleep(0.01)
    return None


def _or_none(kind: Callable[[Any], Any], value: Any) -> Any:
    return None if value is None else kind(value)


class Pulse:
    """Gives the run's sign of life: once by :meth:`beat`, or every second while it is entered.

    Parameters
    ----------
    path : where the sign is written. question : file by which the watchdog asks; removing it is the answer.
    queue : how many queries may wait or be on their way. run : which run it is.
    """

    def __init__(self, path: Path, question: Path, queue: int = QUEUE, run: str = "") -> None:
        self.path, self.question, self.queue, self.run = path, question, queue, run
        self.online: tuple[str, ...] = ()
        self.is_full = False
        self._doing, self._since = "starting", time.monotonic()
        self._ended: deque[tuple[float, int]] = deque()
        self.is_wanted: Callable[[], bool] = lambda: True
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._me = (os.getpid(), born(os.getpid()))

    def turn(self, doing: str) -> None:
        """Note that a new step begins."""
        self._doing, self._since = doing, time.monotonic()

    def at(self, doing: str) -> None:
        """Note what the step is doing now."""
        self._doing = doing

    def ended(self, count: int) -> None:
        """Note that so many queries have come to an end."""
        self._ended.append((time.monotonic(), count))

    def seen(self, online: Iterable[str]) -> None:
        """Note which sites are there."""
        self.online = tuple(sorted(online))

    @property
    def pace(self) -> float | None:
        """Queries per second that came to an end within the last minute."""
        now = time.monotonic()
        while self._ended and now - self._ended[0][0] > PACE_SECONDS:
            self._ended.popleft()
        recent = list(self._ended)
        if not recent:
            return None
        return sum(count for _, count in recent) / max(now - recent[0][0], SECONDS)

    def beat(self) -> None:
        """Give one sign, and answer the watchdog if it asks; not for a run that another has replaced."""
        sign = LifeSign(
            time.time(),
            self.online,
            *self._me,
            doing=self._doing,
            busy=time.monotonic() - self._since,
            pace=self.pace,
            queue=self.queue,
            is_full=self.is_full,
            run=self.run,
        )
        with self._lock, suppress(OSError):
            if self.is_wanted():
                self.is_full = not write_sign(self.path, sign) or self.is_full
                self.question.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        self._closing.clear()
        self._thread = threading.Thread(target=self._run, name="onefold-pulse", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while not self._closing.is_set():
            self.beat()
            self._closing.wait(SECONDS)
