"""The ``onefold`` console script: one parser, one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import onefold
from onefold.cli import audit, bench, demo, experiment, fabricate, federate, fit, predict, release, transfer
from onefold.cli.console import Parser, plain_warnings, say_error
from onefold.exceptions import OnefoldError

COMMANDS = (demo, fit, predict, fabricate, release, transfer, audit, federate, experiment, bench)

DONE, BAD_INPUT, INTERRUPTED, BROKEN_PIPE = 0, 2, 130, 141


def build_parser() -> Parser:
    """The whole command line."""
    parser = Parser(
        prog="onefold",
        description="Learn from data that may not leave its owner: one round, no gradients, closed form.",
    )
    parser.add_argument("--version", action="version", version=f"onefold {onefold.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0 done, 2 bad input, 130 interrupted."""
    try:
        args = build_parser().parse_args(argv)
        with plain_warnings():
            code: int = args.run(args) or DONE
        sys.stdout.flush()
        return code
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else DONE
    except BrokenPipeError:
        # The reader of our output went away: point it elsewhere so that the final flush cannot fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        say_error("interrupted")
        return INTERRUPTED
    except OnefoldError as error:
        say_error(error)
    except MemoryError:
        say_error("not enough memory for this table; try fewer rows or 32-bit values")
    except OSError as error:
        say_error(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or "I/O error")
    return BAD_INPUT
