"""``python -m experiments.data list | make NAME FROM DATA | check DATA``: the files of the experiments.

``list`` tells for every file what to fetch, ``make`` writes one from what was fetched, and ``check`` compares
the files of a folder with those that the stored results were measured on.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from experiments.data import encoders, fingerprints, tables
from onefold._base.files import atomic_write
from onefold.exceptions import InvalidInputError, OnefoldError

BAD_INPUT = 2


def listed(args: argparse.Namespace) -> int:
    """What to fetch for every file."""
    for name, source in fingerprints.sources().items():
        print(f"{name}: {source['about']}\n  licence: {source['licence']}")
        print("".join(f"  $ {command}\n" for command in source["fetch"]), end="")
        if name != "fashion_mnist":
            print(f"  $ python -m experiments.data make {name} FOLDER DATA   # FOLDER: {source['made_from']}")
        print()
    return 0


def made(args: argparse.Namespace) -> int:
    """Write one file."""
    folder, target = Path(args.source), Path(args.data)
    if not folder.is_dir():
        raise InvalidInputError("there is no folder of that name with what was fetched")
    target.mkdir(parents=True, exist_ok=True)
    if args.name in encoders.WRITERS:
        encoders.WRITERS[args.name](folder, target / f"{args.name}.json.gz")
    else:
        arrays = {**tables.MAKERS, **encoders.MAKERS}[args.name](folder)
        with atomic_write(target / f"{args.name}.npz") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    print(fingerprints.verdict(target, args.name))
    return 0


def checked(args: argparse.Namespace) -> int:
    """Compare every file of a folder; 1 if one is another than it was."""
    verdicts = [fingerprints.verdict(Path(args.data), name) for name in fingerprints.stored()]
    print("\n".join(verdicts))
    return int(any("differs" in verdict for verdict in verdicts))


def options() -> argparse.ArgumentParser:
    """The three commands."""
    parser = argparse.ArgumentParser(prog="python -m experiments.data", description=__doc__)
    commands = parser.add_subparsers(required=True)
    found = commands.add_parser("list", description="Say what to fetch for every file.")
    found.set_defaults(run=listed)
    found = commands.add_parser("make", description="Write a file from what was fetched.")
    names = [*tables.MAKERS, *encoders.MAKERS, *encoders.WRITERS]
    found.add_argument("name", choices=names, metavar="NAME", help="which file, without its ending")
    found.add_argument("source", metavar="FROM", help="folder with what was fetched")
    found.add_argument("data", metavar="DATA", help="folder to write to")
    found.set_defaults(run=made)
    found = commands.add_parser("check", description="Compare the files of a folder with those measured on.")
    found.add_argument("data", metavar="DATA", help="folder with the files")
    found.set_defaults(run=checked)
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Run a command; 2 on bad input, with one line."""
    args = options().parse_args(arguments)
    try:
        return int(args.run(args))
    except OnefoldError as error:
        print(f"python -m experiments.data: error: {error}", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
