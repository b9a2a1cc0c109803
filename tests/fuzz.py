"""Coverage-guided search for files and messages that a reader neither uses nor refuses with an error of ours.

``make fuzz RUNS=300`` tries so many inputs per group of formats, ``make fuzz SECONDS=30`` as many as the time
allows, found anew each time. Both use atheris, which they install; without atheris they say so and end. The
search begins with the samples of ``reference/foreign.py`` and forgeries of them. What makes a reader fail is
kept in ``build/fuzz`` and belongs into ``tests/test_foreign_files.py``. The fast tests check the same without
the search.

With ``--runs`` the search is the same in every run of the same code: a fixed seed chooses what is changed in
which input, and coverage what is kept. Another version of Python, numpy or onefold covers other branches and
so comes to other inputs, and so does another processor, where the numbers in a sample end in other digits.
Keys, ciphertexts and noise are made anew each time, and with them all inputs of their groups: what is found
there is told, and fails a search by time only, because it may have little to do with the change at hand.

An input is one byte that names a reader, and a file. Where that byte is odd, checksums are made right first:
otherwise hardly any input would get past them.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import hashlib
import importlib.util
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "fuzz"
GROUPS = {
    "models": ("model", "local model"),
    "parcels": ("parcel",),
    "messages": ("message",),
    "ciphertexts": ("encrypted",),
    "sums and keys": ("sum ", "key ", "store of a site"),
    "moments": ("moments", "whitened moments", "joined sums", "moment classifier", "source", "transfer"),
    "counts": ("counts", "synthesizer"),
    "ledgers and logs": ("ledger", "store of a server", "guarantee"),
    "schemas": ("schema",),
    "tables": ("npz", "csv", "parquet"),
}
FRESH = ("parcels", "ciphertexts", "sums and keys")  # no two runs have the same samples
SEEDS_PER_FORMAT = 40
# The order of sets and of threads would decide what is covered first.
SAME = {"PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
PATIENCE = {
    "runs": 300,
    "seconds": 30,
}  # for one input; where time does not count, neither does a busy machine


def corpora() -> dict[str, list[Any]]:
    """Write where the search of each group begins; its formats, read by instrumented code."""
    import atheris

    quiet = contextlib.redirect_stderr(io.StringIO())  # it would name every module
    with quiet, atheris.instrument_imports(include=["onefold"]):
        import numpy as np

        from reference.foreign import formats
        from reference.hostile import forgeries

    groups, rng, found = {}, np.random.default_rng(0), formats()
    for group, names in GROUPS.items():
        groups[group] = [each for each in found if each.name.startswith(names)]
        corpus = _corpus(group)
        shutil.rmtree(corpus, ignore_errors=True)  # what an earlier search kept would lead elsewhere
        corpus.mkdir(parents=True)
        for number, each in enumerate(groups[group]):
            forged = list(forgeries(each.sample, lambda _: rng.random() < 0.01))[:SEEDS_PER_FORMAT]
            for content in (each.sample, *(content for _, content in forged)):
                seed = bytes([2 * number + 1]) + content
                (corpus / hashlib.sha256(seed).hexdigest()[:20]).write_bytes(seed)
    return groups


def search(group: str, chosen: list[Any], args: argparse.Namespace, amount: int) -> None:
    """Search one group of formats; ends the process."""
    import atheris
    import numpy as np

    from onefold.exceptions import OnefoldError
    from reference.hostile import repaired

    folder = Path(tempfile.mkdtemp())

    def read(data: bytes) -> None:
        if not data:
            return
        each = chosen[data[0] // 2 % len(chosen)]
        path = folder / f"file{each.suffix}"
        path.write_bytes(repaired(data[1:]) if data[0] % 2 else data[1:])
        try:
            with np.errstate(all="ignore"):
                each.read(path)
        except OnefoldError as error:
            if not str(error).isprintable():
                raise RuntimeError("an error line could steer a terminal") from error

    corpus, mode = _corpus(group), "runs" if args.runs else "seconds"
    # The samples themselves count as runs.
    size = [f"-runs={amount + len(list(corpus.iterdir()))}", f"-seed={args.seed}"]
    limits = ["-rss_limit_mb=2048", "-malloc_limit_mb=512", f"-timeout={PATIENCE[mode]}", "-max_len=40000"]
    options = [
        *(size if args.runs else [f"-max_total_time={amount}"]),
        "-verbosity=0",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *options, *limits, f"-artifact_prefix={corpus}-", str(corpus)], read)
    atheris.Fuzz()


def _corpus(group: str) -> Path:
    return WORK / group.replace(" ", "-")


def say(line: str) -> None:
    """One line for whoever waits."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _search_apart(group: str, chosen: list[Any], args: argparse.Namespace, amount: int) -> int:
    """Search a group in a copy of this process, which the search ends: starting anew would take longer."""
    child = os.fork()
    if child:
        return child
    atexit._clear()  # the folders of the samples are for all groups: this one must not tidy them away
    with _corpus(group).with_suffix(".log").open("wb") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    try:
        search(group, chosen, args, amount)
    finally:
        os._exit(1)


def _report(group: str, code: int, by_time: bool) -> bool:
    """Say how the search of a group ended; True if it failed."""
    said = _corpus(group).with_suffix(".log").read_text(errors="replace")
    runs = [line.split()[-1] for line in said.splitlines() if "executed_units" in line]
    counts = by_time or group not in FRESH
    verdict = "ok" if code == 0 else "FAILED" if counts else "FOUND, which does not fail this run"
    say(f"{group}: {verdict}, {runs[0] if runs else 'no'} inputs")
    if code != 0:
        say(said[-3000:])
    return code != 0 and counts


def main() -> int:
    """Search every group, as many at once as there are cores, and say which of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("--seconds", type=int, default=30, help="time of the search, over all groups")
    amount.add_argument("--runs", type=int, help="number of inputs of each group, instead of a time")
    parser.add_argument("--seed", type=int, default=1, help="which inputs --runs tries (default: 1)")
    parser.add_argument("--group", choices=GROUPS, help="search this group only")
    args = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        say("fuzz: SKIPPED, atheris is not installed")
        return 0
    if SAME.items() - os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **SAME})
    groups = {name: chosen for name, chosen in corpora().items() if args.group in (None, name) and chosen}
    workers = os.cpu_count() or 1
    share = args.runs or max(1, args.seconds * workers // len(groups))
    waiting, running, failed = list(groups), {}, False
    while waiting or running:
        while waiting and len(running) < workers:
            group = waiting.pop(0)
            running[_search_apart(group, groups[group], args, share)] = group
        child, status = os.wait()
        failed |= _report(running.pop(child), os.waitstatus_to_exitcode(status), by_time=not args.runs)
    if failed:
        say(f"fuzz: inputs that fail are in {WORK.relative_to(ROOT)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
