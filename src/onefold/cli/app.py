"""The ``onefold`` console script: one parser, one place where errors become exit codes."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import onefold
from onefold.cli.console import Parser, plain_warnings, say_error
from onefold.exceptions import FederationError, OnefoldError, ServerBusyError

DONE, FAILED, BAD_INPUT, BUSY, INTERRUPTED, BROKEN_PIPE = 0, 1, 2, 4, 130, 141


OF_SITE = ("update", "forget", "status")


# The line of each command in the list; the module of its name declares it.
COMMANDS = {
    "demo": "compare private and plain federations on one dataset",
    "schema": "declare what the columns of a table mean",
    "check": "list where a table breaks its schema",
    "fit": "fit a classifier to a table",
    "predict": "predict the class of every row of a table",
    "fabricate": "replace the rows of a table by private synthetic rows",
    "synthesize": "make a private synthetic table from a declared schema",
    "release": "add the least informative noise to rows and publish them",
    "transfer": "learn from few labels with the help of a private source",
    "audit": "measure what a model gives away about its training rows",
    "ledger": "make and read the account of what releases have spent",
    "federate": "run a federation of several machines",
    "report": "write a page about a model, a private table or a federation",
    "serve": "open local pages to make private tables and watch a federation",
}


def build_parser(argv: Sequence[str]) -> Parser:
    """Build the command line; only the command that ``argv`` names is imported and declared in full."""
    parser = Parser(
        prog="onefold",
        description="Learn from data that may not leave its owner: one round, no gradients, closed form.",
    )
    parser.add_argument("--version", action="version", version=f"onefold {onefold.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=Parser)
    named = next((word for word in argv if not word.startswith("-")), None)
    for name, about in COMMANDS.items():
        if name == named:
            import_module(f"onefold.cli.{name}").add_parser(commands)
        else:
            commands.add_parser(name, help=about)
    return parser


def _with_two_words(words: Sequence[str]) -> Sequence[str]:
    """Put two words of ``federate site update`` and the like into one: ``site`` itself takes a table."""
    if tuple(words[:2]) == ("federate", "site") and words[2:3] and words[2] in OF_SITE:
        return ["federate", f"site {words[2]}", *words[3:]]
    return words


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 done, 1 findings or no answer, 2 bad input, 4 a server is busy, 130 stopped.
    """
    words = _with_two_words(sys.argv[1:] if argv is None else argv)
    try:
        with plain_warnings():  # packages may warn when a command imports them
            args = build_parser(words).parse_args(words)
            if getattr(args, "epsilon", None) is not None and getattr(args, "schema", None) is not None:
                # The one place where commands that promise something ask who answers for their schema.
                import_module("onefold.tables").Schema.load(args.schema).require_confirmed(args.schema)
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
    except ServerBusyError as error:
        say_error(error)
        return BUSY
    except FederationError as error:  # what did not start or answer is no bad input
        say_error(error)
        return FAILED
    except OnefoldError as error:
        say_error(error)
    except MemoryError:
        say_error("not enough memory for this table; try fewer rows or 32-bit values")
    except OSError as error:
        say_error(f"{error.filename}: {error.strerror}" if error.filename else error.strerror or "I/O error")
    return BAD_INPUT
