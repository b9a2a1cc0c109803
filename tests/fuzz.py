"""Coverage-guided search for files and messages that a reader neither uses nor refuses with an error of ours.

``make fuzz SECONDS=30`` runs it with atheris, which it installs; without atheris it says so and ends. It
begins with the samples of ``reference/foreign.py`` and forgeries of them. What makes a reader fail is kept in
``build/fuzz`` and belongs into ``tests/test_foreign_files.py``. The fast tests check the same without the
search.

An input is one byte that names a reader, and a file. Where that byte is odd, checksums are made right first:
otherwise hardly any input would get past them.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).parents[1]
WORK = ROOT / "build" / "fuzz"
GROUPS = {
    "models": ("model", "local model", "parcel"),
    "old files": ("version 0.1",),
    "messages": ("message", "encrypted"),
    "sums and keys": ("sum ", "key ", "approvals", "replays"),
    "moments": ("moments", "whitened moments", "joined sums", "moment classifier", "source", "transfer"),
    "counts": ("counts", "synthesizer"),
    "ledgers and logs": ("ledger", "guard", "membership log", "head of a log", "guarantee"),
    "schemas": ("schema",),
    "tables": ("npz", "csv", "parquet"),
}
SEEDS_PER_FORMAT = 40


def search(group: str, seconds: int) -> None:
    """Search one group of formats; ends the process."""
    import atheris

    with atheris.instrument_imports(include=["onefold"]):
        import numpy as np

        from onefold.exceptions import OnefoldError
        from reference.foreign import formats
        from reference.hostile import forgeries, repaired

    chosen = [each for each in formats() if each.name.startswith(GROUPS[group])]
    rng = np.random.default_rng(0)
    corpus = WORK / group.replace(" ", "-")
    corpus.mkdir(parents=True, exist_ok=True)
    for number, each in enumerate(chosen):
        forged = list(forgeries(each.sample, lambda _: rng.random() < 0.01))[:SEEDS_PER_FORMAT]
        for content in (each.sample, *(content for _, content in forged)):
            seed = bytes([2 * number + 1]) + content
            (corpus / hashlib.sha256(seed).hexdigest()[:20]).write_bytes(seed)
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

    limits = ["-rss_limit_mb=2048", "-malloc_limit_mb=512", "-timeout=30", "-max_len=40000"]
    prefix = f"-artifact_prefix={WORK}/{group.replace(' ', '-')}-"
    options = [f"-max_total_time={seconds}", "-verbosity=0", "-print_final_stats=1", *limits, prefix]
    atheris.Setup([sys.argv[0], *options, str(corpus)], read)
    atheris.Fuzz()


def say(line: str) -> None:
    """One line for whoever waits."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _search_apart(group: str, seconds: int) -> subprocess.CompletedProcess[str]:
    """Search a group in a process of its own: a fault may end it, and so does the search."""
    command = [sys.executable, __file__, "--group", group, "--seconds", str(seconds)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def main() -> int:
    """Search every group for its share of the time, and say which of them failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--seconds", type=int, default=30, help="time of the search, over all groups, without starting them"
    )
    parser.add_argument("--group", choices=GROUPS, help="search this group only")
    args = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        say("fuzz: SKIPPED, atheris is not installed")
        return 0
    if args.group is not None:
        search(args.group, args.seconds)
    WORK.mkdir(parents=True, exist_ok=True)
    workers = os.cpu_count() or 1
    share, failed = max(1, args.seconds * workers // len(GROUPS)), []
    with ThreadPoolExecutor(workers) as pool:
        for group, done in zip(
            GROUPS, pool.map(lambda group: _search_apart(group, share), GROUPS), strict=True
        ):
            runs = [line.split()[-1] for line in done.stderr.splitlines() if "executed_units" in line]
            say(f"{group}: {'ok' if done.returncode == 0 else 'FAILED'}, {runs[0] if runs else 'no'} inputs")
            if done.returncode != 0:
                failed.append(group)
                say(done.stdout[-3000:] + done.stderr[-3000:])
    if failed:
        say(f"fuzz: inputs that fail are in {WORK.relative_to(ROOT)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
