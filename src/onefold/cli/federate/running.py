"""What the parts of ``onefold federate`` share: exit codes, stopping in order, and telling a result."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onefold.cli.console import print_json, say, say_error
from onefold.cli.outputs import STANDARD_OUTPUT
from onefold.exceptions import FederationError, InvalidInputError

if TYPE_CHECKING:
    from onefold.federated.flower import QueryResult

# Beside 0 (done) and 2 (bad input): something did not start or answer; only some sites answered.
FAILED, PARTIAL = 1, 3


def add_folder_option(parser: Any, kind: str) -> None:
    """Where the server or the site keeps its things."""
    default = "this folder" if kind == "site" else "this folder, server or federation/server"
    parser.add_argument("--folder", metavar="DIR", help=f"folder of the {kind} (default: {default})")


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


def destination(out: str | None, as_json: bool) -> str | None:
    """Where predictions are written: to ``--out``, to the terminal, or with ``--json`` nowhere."""
    where = out if out is not None or as_json else STANDARD_OUTPUT
    if where == STANDARD_OUTPUT and as_json:
        raise InvalidInputError("--json and --out - both want standard output")
    return where


def tell_result(
    result: QueryResult, out: str | None, accuracy: float | None, *, as_json: bool, quiet: bool
) -> int:
    """Tell how many rows were answered and by whom, as JSON or in a line; the exit code."""
    if as_json:
        print_json(_summary(result, out, accuracy))
    else:
        right = "" if accuracy is None else f", accuracy {accuracy:.4f}"
        where = f", written to {out}" if out not in (None, STANDARD_OUTPUT) else ""
        say(f"{result.n_rows} rows by {len(result.answered)} site(s){where}{right}", quiet)
    if result.partial:
        sites = sorted({*result.refused, *result.missing})
        without = [f"{site} ({result.refused.get(site, 'no answer')})" for site in sites]
        say(f"PARTIAL: without {', '.join(without)}", quiet=False)
    for site, reason in result.kept_out.items():
        say(f"{site} is kept out and was not asked: {reason}", quiet)
    for site, code in result.outliers.items():
        say(f"answers of {site} look odd: {code}", quiet)
    return PARTIAL if result.partial else 0


def _summary(result: QueryResult, out: str | None, accuracy: float | None) -> dict[str, Any]:
    summary = {
        **result.encryption,
        "rows": result.n_rows,
        "answered": list(result.answered),
        "missing": list(result.missing),
        "refused": result.refused,
        "partial": result.partial,
        "outliers": result.outliers,
        "kept_out": result.kept_out,
    }
    summary |= {"labels": result.predictions.tolist()} if out is None else {"predictions": out}
    return summary if accuracy is None else summary | {"accuracy": accuracy}
