"""``python -m experiments [list | run | compare | report]``: the register, and running what it is made of.

Without a command, the names of all experiments.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from experiments import pages, stored
from experiments.register import checking, page, reading
from experiments.register.checking import Line
from onefold._base.foreign import parse_json
from onefold.exceptions import InvalidInputError, OnefoldError
from onefold.report import format_table, write_report

DEVIATES, BAD_INPUT = 1, 2
_LONGEST = 60


def listed(args: argparse.Namespace) -> int:
    """Every line of the register that was asked for."""
    found = _chosen(args)
    if args.json:
        print(json.dumps([line.as_json() for line in found], indent=1))
        return 0
    if found:
        print(
            format_table(
                ("document", "item", "row", "printed", "ours", "difference", "status"),
                [_cells(line) for line in found],
            )
        )
    counts = Counter(line.row.status for line in found)
    told = ", ".join(f"{counts[status]} {status}" for status in reading.STATUSES if counts[status])
    print(f"\n{len(found)} lines: {told or 'none'}")
    return 0


def _chosen(args: argparse.Namespace) -> list[Line]:
    return [
        line
        for line in checking.lines(reading.read(), checking.results())
        if args.document in (None, line.item.document)
        if args.status in (None, line.row.status)
        if not getattr(args, "names", None) or line.row.experiment in args.names
    ]


def _cells(line: Line) -> list[object]:
    row, difference = line.row, line.difference
    printed = f"{row.document:g}" if isinstance(row.document, int | float) else row.document
    ours = None if line.ours is None else f"{line.ours:.4g}"
    return [
        line.item.document,
        line.item.name,
        _short(row.row),
        _short(printed or "", 24),
        ours,
        None if difference is None else f"{difference:+.4f}",
        row.status,
    ]


def _short(text: str, length: int = _LONGEST) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def compared(args: argparse.Namespace) -> int:
    """The lines of some experiments beside the document, and everything in the register that is not true."""
    args.document = args.status = None
    args.names = _known(args.names) if args.names else []
    raw = checking.results()
    items = reading.read()
    faults = checking.faults(items, raw, page.shown(raw)) + page.stale()
    if args.names:
        faults = [fault for fault in faults if any(name in fault for name in args.names)]
    if args.json:
        print(json.dumps({"lines": [line.as_json() for line in _chosen(args)], "faults": faults}, indent=1))
    else:
        listed(argparse.Namespace(**{**vars(args), "json": False}))
    for fault in faults:
        print(fault, file=sys.stderr)
    return DEVIATES if faults else 0


def ran(args: argparse.Namespace) -> int:
    """Run experiments one after the other; a folder given by ``--resume`` remembers what is finished."""
    names = _known(args.names)
    folder = None if args.resume is None else Path(args.resume)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
    worst = 0
    for number, name in enumerate(names, 1):
        mark = None if folder is None else folder / f"{name.replace('/', '_')}.finished"
        if mark is not None and mark.is_file():
            _tell(f"{number} of {len(names)}: {name} was finished before")
            continue
        _tell(f"{number} of {len(names)}: {name}")
        start = time.perf_counter()
        code = _run(name, _arguments(name, folder, args))
        _tell(f"{number} of {len(names)}: {name} took {time.perf_counter() - start:.0f} s, exit code {code}")
        if mark is not None and code != BAD_INPUT and code >= 0:
            mark.write_text(f"{stored.now()} exit code {code}\n", encoding="utf-8")
        worst = max(worst, abs(code))
    return worst


def reported(args: argparse.Namespace) -> int:
    """Write a page about a result, with its numbers beside it."""
    try:
        content = Path(args.result).read_bytes()
    except OSError as error:
        raise InvalidInputError(f"{args.result}: {error.strerror}") from None
    digest = {"SHA-256 of the result": hashlib.sha256(content).hexdigest()}
    try:
        page = pages.of_experiment(parse_json(content), digest)
    except OnefoldError as error:
        raise InvalidInputError(f"{args.result}: {error}") from None
    out = args.out or f"{args.result}.report.html"
    beside = write_report(out, page)
    print("\n".join([*page.verdict, f"report written to {out}, its numbers to {beside}"]))
    return 0


def _tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def scripts(folder: Path = checking.ROOT / "experiments") -> list[str]:
    """Runnable scripts in ``folder``: ``kahm/table_1`` for ``kahm/table_1.py``; a leading ``_`` hides."""
    names = []
    for path in sorted(folder.rglob("*.py")):
        parts = path.relative_to(folder).with_suffix("").parts
        runnable = '__name__ == "__main__"' in path.read_text(encoding="utf-8")
        if runnable and not any(part.startswith(("_", ".")) for part in parts):
            names.append("/".join(parts))
    return names


def _run(name: str, arguments: list[str]) -> int:
    """Run one experiment in a process of its own, with the checkout on its path; returns its exit code."""
    paths = [str(checking.ROOT), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    sys.stdout.flush()
    command = [sys.executable, "-m", f"experiments.{name.replace('/', '.')}", *arguments]
    return subprocess.run(command, env=environment, check=False).returncode


def _known(names: Sequence[str]) -> list[str]:
    """Experiments by their names; a folder stands for all of its experiments."""
    known = scripts()
    found: list[str] = []
    for name in names:
        plain = name.removesuffix(".py").strip("/")
        matching = [other for other in known if other == plain or other.startswith(f"{plain}/")]
        if not matching:
            near = get_close_matches(plain, known, n=1, cutoff=0.3)
            hint = f", did you mean {near[0]}?" if near else ""
            raise InvalidInputError(f"no experiment {name!r}{hint} (python -m experiments lists them)")
        found += [other for other in matching if other not in found]
    return found


def _arguments(name: str, folder: Path | None, args: argparse.Namespace) -> list[str]:
    given = [*args.arguments]
    given += [f"--{option}" for option in ("quick", "store", "json") if getattr(args, option)]
    if args.data_dir is not None:
        given += ["--data-dir", args.data_dir]
    if folder is not None and _continues(name):
        given += ["--resume", str(folder / f"{name.replace('/', '_')}.jsonl")]
    return given


def _continues(name: str) -> bool:
    """Whether a script can continue in the middle: its own help says so."""
    module = f"experiments.{name.replace('/', '.')}"
    told = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=checking.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    return "--resume" in told.stdout


def options() -> argparse.ArgumentParser:
    """The four commands; without one, the names of the experiments."""
    parser = argparse.ArgumentParser(prog="python -m experiments", description=__doc__)
    commands = parser.add_subparsers(dest="command")
    parser.set_defaults(run=lambda args: print("\n".join(scripts())) or 0)
    found = commands.add_parser("list", description="List the register: every number of the five documents.")
    found.add_argument("--document", choices=reading.DOCUMENTS, help="only this document")
    found.add_argument("--status", choices=reading.STATUSES, help="only lines of this status")
    found.add_argument(
        "--json", action="store_true", help="print JSON, with reasons, commands, seeds and dates"
    )
    found.set_defaults(run=listed)
    found = commands.add_parser("run", description="Run experiments one after the other.")
    found.add_argument(
        "names", nargs="+", metavar="NAME", help="experiment or folder, for instance kahm/mnist or kahm"
    )
    found.add_argument("--quick", action="store_true", help="small sizes, only to see that they work")
    found.add_argument("--data-dir", metavar="DIR", help="folder with the .npz files")
    found.add_argument("--store", action="store_true", help="keep what was measured in experiments/results")
    found.add_argument("--json", action="store_true", help="let the experiments print JSON")
    found.add_argument(
        "--resume", metavar="FOLDER", help="remember finished experiments and pieces there, and continue"
    )
    found.set_defaults(run=ran)
    found = commands.add_parser(
        "compare",
        description="Compare stored results with the documents, and say what in the register is not true.",
    )
    found.add_argument("names", nargs="*", metavar="NAME", help="experiments or folders (default: all)")
    found.add_argument("--json", action="store_true", help="print JSON")
    found.set_defaults(run=compared)
    found = commands.add_parser("report", description="Write an HTML page about the result of an experiment.")
    found.add_argument("result", metavar="FILE", help="what a script prints with --json, or a stored result")
    found.add_argument("--out", metavar="PAGE", help="page to write (default: FILE, ending in .report.html)")
    found.set_defaults(run=reported)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 when all is well, 1 when something is not true, 2 on bad input."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, extra = (
        (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    )
    args = options().parse_args(own)
    args.arguments = extra
    try:
        return int(args.run(args))
    except OnefoldError as error:
        print(f"python -m experiments: error: {error}", file=sys.stderr)
        return BAD_INPUT


if __name__ == "__main__":
    sys.exit(main())
