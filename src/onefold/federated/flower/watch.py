"""The watchdog of a server: when the run is to be replaced, and why.

A run under load may be late with its sign of life, and replacing it loses the queries it carries. So it is
replaced only if its process has ended, if it does not answer a question for a long time, or if one step of
it has gone on for longer than any step does.
"""

import time
from collections.abc import Callable

from onefold._base.files import is_disk_full, open_file
from onefold.federated.flower.life import LifeSign
from onefold.federated.flower.spool import Spool

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
        self, spool: Spool, is_there: Callable[[int], bool], clock: Callable[[], float] = time.monotonic
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
