"""Progress bars that stay out of the way: only on a terminal, only for work longer than two seconds."""

import sys
from collections.abc import Iterable
from typing import TypeVar

__all__ = ["track"]

T = TypeVar("T")
DELAY_SECONDS = 2.0


def track(
    iterable: Iterable[T], total: int | None = None, description: str = "", show: bool | None = None
) -> Iterable[T]:
    """Return the items of ``iterable`` behind a progress bar on standard error.

    ``show=None`` shows the bar when standard error is a terminal and two seconds have passed;
    ``True`` shows it at once, ``False`` never.
    """
    wanted = sys.stderr.isatty() if show is None else show
    if not wanted:
        return iterable
    from tqdm import tqdm  # imported late: a library call without a bar does not pay for it

    delay = 0.0 if show else DELAY_SECONDS
    bar: Iterable[T] = tqdm(
        iterable, total=total, desc=description, delay=delay, file=sys.stderr, leave=False
    )
    return bar
