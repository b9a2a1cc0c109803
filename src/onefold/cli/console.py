"""What a command says and where: results on standard output, everything else on standard error."""

import argparse
import json
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from typing import Any, NoReturn

from onefold.exceptions import OnefoldWarning, printable

BUSY_AFTER_SECONDS = 2.0
PASSWORD = re.compile(r"(?<=password=)[^&#\s]*")
ADDRESS = re.compile(r"(://[^\s:@/]*:)(\S*)")  # to its end, where it is looked for a password once
# Controls beyond those that JSON escapes, and signs that hide or turn the text around them.
UNPRINTABLE = re.compile(
    "[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\U000e0000-\U000e0fff]"
)


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line, like every other error of the command."""

    def parse_known_args(self, *given: Any, **more: Any) -> Any:
        """Refuse what the part itself does not know, so that the error names the help of that part."""
        namespace, unknown = super().parse_known_args(*given, **more)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(unknown)}")
        return namespace, unknown

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line and leave with code 2."""
        self.exit(2, f"onefold: error: {one_line(message)} (see {self.prog} --help)\n")


def one_line(message: object) -> str:
    """The message without line breaks and passwords in addresses, with what a terminal would obey escaped."""
    return printable(ADDRESS.sub(_without_password, PASSWORD.sub("***", " ".join(str(message).split()))))


def _without_password(found: re.Match[str]) -> str:
    user, rest = found.groups()
    return f"{user}***{rest[rest.rindex('@') :]}" if "@" in rest else found[0]


def count_of(number: int, noun: str) -> str:
    """The number and the noun, in the singular or with an s."""
    return f"{number} {noun}{'s'[: number != 1]}"


def say_error(message: object) -> None:
    """One line on standard error."""
    print(f"onefold: error: {one_line(message) or 'unknown error'}", file=sys.stderr)


def say(message: str, quiet: bool) -> None:
    """A remark on standard error, unless the user asked for silence."""
    if not quiet:
        print(f"onefold: {one_line(message)}", file=sys.stderr)


def print_json(result: dict[str, Any]) -> None:
    """A result for machines, and for terminals: JSON leaves some characters that these obey as they are."""
    text = json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False)
    print(UNPRINTABLE.sub(lambda found: json.dumps(found[0])[1:-1], text), flush=True)


def show(result: dict[str, Any], words: Iterable[str], *, as_json: bool, quiet: bool = False) -> None:
    """The result: as JSON, or in words, line by line, unless the user asked for silence."""
    if as_json:
        print_json(result)
    elif not quiet:
        lines = (line for word in words for line in word.split("\n"))
        print("\n".join(map(printable, lines)), flush=True)  # names of columns and classes are in them


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Show the package's own warnings as single lines, each once, and no others."""
    seen: set[str] = set()

    def print_once(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        text = one_line(message)
        if issubclass(category, OnefoldWarning) and text not in seen:
            seen.add(text)
            print(f"onefold: warning: {text}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", OnefoldWarning)
        warnings.showwarning = print_once
        yield


class _NoTerminal:
    """Standard error that passes everything on but claims to be no terminal, so that no bar is drawn."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def isatty(self) -> bool:
        return False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def without_bars(quiet: bool) -> Iterator[None]:
    """No progress bars inside, when ``quiet``."""
    if not quiet:
        yield
        return
    stream: Any = _NoTerminal(sys.stderr)
    with redirect_stderr(stream):
        yield


@contextmanager
def busy(description: str, quiet: bool) -> Iterator[None]:
    """Show the time passed on a terminal, from two seconds on, for work that cannot say how far it is."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    done = threading.Event()
    clock = threading.Thread(target=_show_clock, args=(description, done), daemon=True)
    clock.start()
    try:
        yield
    finally:
        done.set()
        clock.join()


def _show_clock(description: str, done: threading.Event) -> None:
    started = time.monotonic()
    if done.wait(BUSY_AFTER_SECONDS):
        return
    while not done.wait(0.5):
        print(f"\r{description} ... {time.monotonic() - started:.0f} s", end="", file=sys.stderr, flush=True)
    print("\r\033[K", end="", file=sys.stderr, flush=True)
