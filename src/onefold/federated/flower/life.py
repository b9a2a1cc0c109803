"""The sign of life of the run at the server, and the watchdog that looks at it and may have the run replaced.

A thread of the run writes it every second, also while one step takes long. On a full disk it is written over
the old one, which takes no room. Whoever asks reads it, and the server's watchdog asks before it ends a run.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from onefold._base.files import is_disk_full, open_file
from onefold._base.records import Record, record
from onefold.exceptions import OnefoldError
from onefold.federated.flower.folders import QUEUE

if TYPE_CHECKING:
    from onefold.federated.flower.spool import Spool

SECONDS = 1.0  # between two signs
SILENCE = 15.0  # a sign older than this says nothing any more
BLOCK = 4096  # the file has whole blocks, so that another sign fits into its place
MOST_BYTES = 2**20
PACE_SECONDS = 60.0


@record
class LifeSign(Record, kind="sign of life"):
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

    def leave(self, path: Path) -> bool:
        """Leave the sign in the place of the last one, and return whether there was room for it.

        It need not reach the disk, every second of the day.
        """
        text = self.to_bytes()
        content = text.ljust(-(-len(text) // BLOCK) * BLOCK, b"\0")
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
                    file.write(content.ljust(os.fstat(file.fileno()).st_size, b"\0"))
            with suppress(OSError):
                os.utime(path)  # where even that takes room
            return not is_disk_full(error)

    @classmethod
    def last(cls, path: Path) -> Self | None:
        """The sign that was left last; None if there is none, or not one of ours."""
        for _ in range(3):  # it may be left just now
            try:
                sign = cls.from_bytes(path.read_bytes().rstrip(b"\0"), MOST_BYTES)
                return replace(sign, time=max(sign.time, path.stat().st_mtime))
            except OnefoldError:
                time.sleep(0.01)
            except OSError:
                return None
        return None

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
                self.is_full = not sign.leave(self.path) or self.is_full
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


# --- the watchdog of a server -------------------------------------------------------------------------------
# A run under load may be late with its sign of life, and replacing it loses the queries it carries. So it is
# replaced only if its process has ended, if it does not answer a question for a long time, or if one step of
# it has gone on for longer than any step does.


LOOKS = 5  # in a row: after a pause of the whole machine the sign of life is old for a moment
ANSWER_SECONDS = 120.0
LONGEST_STEP = 900.0


class Watchdog:
    """Looks at the sign of life of a run, and asks the run where it is old.

    Parameters
    ----------
    spool : where the sign is and the question goes. is_there : whether a process of the run has not ended.
    clock : seconds that never go back.
    """

    def __init__(
        self, spool: "Spool", is_there: Callable[[int], bool], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.spool, self.is_there, self._clock = spool, is_there, clock
        self.reset()

    def reset(self) -> None:
        """Begin anew, with a new run."""
        self._odd = 0
        self._asked: float | None = None

    def why_replace(self) -> str | None:
        """To be called every second or so: why the run is to be replaced; None to leave it alone."""
        sign = self.spool.life()
        if sign is None or sign.pid is None:
            return self._often("it has given no sign of life", sign is not None and sign.is_fresh)
        if not self.is_there(sign.pid):
            return self._often("its process has ended", False)
        self._odd = 0
        if sign.is_fresh:
            self._asked = None
            if sign.busy > LONGEST_STEP:
                return f"it has been {sign.doing} for {sign.busy:.0f} s"
            return None
        return self._unanswered(sign)

    def _often(self, why: str, is_well: bool) -> str | None:
        self._odd = 0 if is_well else self._odd + 1
        return why if self._odd > LOOKS else None

    def _unanswered(self, sign: LifeSign) -> str | None:
        """Ask, or see whether the question was answered; a run that answers is busy."""
        now = self._clock()
        if self._asked is None or not self.spool.question.exists():
            try:
                open_file(self.spool.question, "ab").close()
            except OSError as error:
                if not is_disk_full(error):
                    raise
                return None  # nothing can be asked, and nothing started
            self._asked = now
        if now - self._asked <= ANSWER_SECONDS:
            return None
        return f"its process is there and has not answered for {now - self._asked:.0f} s ({sign.doing})"
