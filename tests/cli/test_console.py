"""What appears on a terminal while a command works, and what does not appear elsewhere."""

import io
import json
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr

import pytest

from onefold._base.parallel import track
from onefold.cli import console
from onefold.exceptions import DataScaleWarning


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def on_a_terminal() -> Iterator[Terminal]:
    """Standard error is a terminal inside (a fixture would be undone by pytest's own capturing)."""
    stream = Terminal()
    with redirect_stderr(stream):
        yield stream
        assert sys.stderr is stream


def wait_for(stream: io.StringIO, text: str) -> None:
    end = time.monotonic() + 30
    while text not in stream.getvalue():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_long_work_on_a_terminal_shows_the_seconds_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "BUSY_AFTER_SECONDS", 0.0)
    with on_a_terminal() as terminal:
        with console.busy("reading", quiet=False):
            wait_for(terminal, "reading ...")
        assert terminal.getvalue().endswith("\r\033[K")


def test_short_or_quiet_work_shows_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    with on_a_terminal() as terminal:
        with console.busy("reading", quiet=False):
            pass
        monkeypatch.setattr(console, "BUSY_AFTER_SECONDS", 0.0)
        with console.busy("reading", quiet=True):
            time.sleep(0.02)
        assert terminal.getvalue() == ""


def test_clock_stops_when_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "BUSY_AFTER_SECONDS", 0.0)

    def fail(terminal: Terminal) -> None:
        with console.busy("reading", quiet=False):
            wait_for(terminal, "reading ...")
            raise KeyError

    before = threading.active_count()
    with on_a_terminal() as terminal:
        with pytest.raises(KeyError):
            fail(terminal)
        assert terminal.getvalue().endswith("\r\033[K")
    assert threading.active_count() == before


@pytest.mark.parametrize("quiet", [True, False])
def test_quiet_suppresses_progress_bars(monkeypatch: pytest.MonkeyPatch, quiet: bool) -> None:
    monkeypatch.setattr("onefold._base.parallel.DELAY_SECONDS", 0.0)
    with on_a_terminal() as terminal:
        with console.without_bars(quiet):
            assert list(track(range(3), 3, "fitting")) == [0, 1, 2]
            sys.stderr.write("a word")
        shown = terminal.getvalue()
    assert ("fitting" in shown) is not quiet
    assert "a word" in shown


def test_only_warnings_of_the_package_are_shown_each_once(capsys) -> None:
    with console.plain_warnings():
        for _ in range(3):
            warnings.warn("too  small\x07", DataScaleWarning, stacklevel=1)
            warnings.warn("not ours", UserWarning, stacklevel=1)
    assert capsys.readouterr().err == "onefold: warning: too small\\x07\n"


def test_names_from_a_table_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    console.show({}, ["classes: \x1b[31mred", "two\nlines ± ü"], as_json=False)
    console.say("column \x1b[2J\nleft out", quiet=False)
    console.say_error("no \x07 such file")
    shown = capsys.readouterr()
    assert shown.out == "classes: \\x1b[31mred\ntwo\nlines ± ü\n"
    assert shown.err == "onefold: column \\x1b[2J left out\nonefold: error: no \\x07 such file\n"


def test_json_for_a_terminal_escapes_what_it_would_obey(capsys: pytest.CaptureFixture[str]) -> None:
    result = {"class": "\x9b31m \u202e \x1b[2J ü 日本"}
    console.print_json(result)
    shown = capsys.readouterr().out
    assert shown.replace("\n", "").isprintable()
    assert "ü 日本" in shown
    assert json.loads(shown) == result
