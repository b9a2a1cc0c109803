"""What the parts of ``onefold federate`` share: finding folders, running until told to stop, exit codes."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold.cli.console import say_error
from onefold.exceptions import FederationError, InvalidInputError

if TYPE_CHECKING:
    from onefold.federated.flower.folders import ServerFolder, SiteFolder

# Beside 0 (done) and 2 (bad input): something did not start or answer; only some sites answered.
FAILED, PARTIAL = 1, 3
SERVER_FILE, SITE_FILE = "server.json", "site.json"


def add_folder_option(parser: Any, kind: str) -> None:
    """Where the server or the site keeps its things."""
    parser.add_argument("--folder", metavar="DIR", help=f"folder of the {kind} (here, or as init made it)")


def server_folder(args: argparse.Namespace) -> ServerFolder:
    """The folder of the server: the one named, this one, or the one ``init`` makes."""
    from onefold.federated.flower.folders import ServerFolder

    places = [args.folder] if args.folder is not None else [".", "server", "federation/server"]
    for place in places:
        if (Path(place) / SERVER_FILE).is_file():
            return ServerFolder(Path(place))
    raise InvalidInputError(f"{places[0]}: no server's folder; make one with onefold federate init")


def site_folder(args: argparse.Namespace) -> SiteFolder:
    """The folder of the site: the one named, or this one."""
    from onefold.federated.flower.folders import SiteFolder

    place = Path("." if args.folder is None else args.folder)
    if not (place / SITE_FILE).is_file():
        raise InvalidInputError(f"{place}: no site's folder; name it with --folder")
    return SiteFolder(place)


@contextmanager
def until_stopped() -> Iterator[Callable[[], bool]]:
    """A function that says whether to go on; an interrupt or a termination ends it, in order.

    Until it is called for the first time, while things are being started, they end that at once.
    """
    going, started = True, False

    def stop(*_: object) -> None:
        nonlocal going
        going = False
        if not started:
            raise KeyboardInterrupt

    def is_going() -> bool:
        nonlocal started
        started = True
        return going

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield is_going
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def keep_checking(check: Callable[[], None], is_going: Callable[[], bool], seconds: float | None) -> None:
    """Check every half second until told to stop, or for some time."""
    end = None if seconds is None else time.monotonic() + seconds
    while is_going() and (end is None or time.monotonic() < end):
        check()
        time.sleep(0.5)


def with_exit_code(run: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """What did not start or answer is no bad input: exit code 1."""

    def wrapped(args: argparse.Namespace) -> int:
        try:
            return run(args)
        except FederationError as error:
            say_error(error)
            return FAILED

    return wrapped


def tell(line: str) -> None:
    """One line on standard output, at once, though it may go to a file."""
    print(line, flush=True)
    sys.stdout.flush()
