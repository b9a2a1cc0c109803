"""Run tests under several BLAS kernels and thread counts: ``python tests/kernels.py [--full] [arguments]``.

The last digits of a product depend on the kernel that OpenBLAS chooses for the processor and on its number of
threads. What onefold promises to the last bit must hold under each of them, so the tests marked ``exact`` run
once per setting here. Usually every kernel and every number of threads has one turn: the machine's own
kernel has had one in the fast tests; ``--full`` takes each kernel with each number. A kernel that this
processor cannot run is skipped with a line that says so.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

# Kernel of OpenBLAS -> what the processor must have, and what numpy must do without to be like it.
OLD = ("AVX512F", "AVX512_SKX", "X86_V4")
KERNELS = {
    "Haswell": ("AVX2", OLD),
    "SkylakeX": ("AVX512_SKX", ()),
    "Prescott": ("SSE3", OLD),
    "Zen": ("AVX2", OLD),
}
USUAL, THREADS = ("Haswell", "SkylakeX"), (1, 2)
OWN = "the processor's own kernel"  # for processors that can run none of these
MARK = "@pytest.mark.exact"


def _exact() -> list[str]:
    """Arguments that run the exact tests. Only their files are named: collecting all takes longer."""
    files = sorted(path for path in Path(__file__).parent.rglob("test_*.py") if MARK in path.read_text())
    return ["--numprocesses", "auto", "-m", "exact and not nightly", *map(str, files)]


def _features() -> dict[str, bool]:
    """What numpy found this processor to have."""
    return dict(np._core._multiarray_umath.__cpu_features__)


def _dispatched(names: tuple[str, ...]) -> str:
    """Those of the features that this numpy can be told to do without."""
    known = set(np._core._multiarray_umath.__cpu_dispatch__)
    return " ".join(name for name in names if name in known and _features().get(name))


def _run(kernel: str, threads: int, arguments: list[str]) -> bool:
    title = f"{kernel}, {threads} BLAS thread{'s' * (threads > 1)}"
    counts = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    environment = {**os.environ, **counts}
    if kernel != OWN:
        environment["OPENBLAS_CORETYPE"] = kernel
        if without := _dispatched(KERNELS[kernel][1]):
            environment["NPY_DISABLE_CPU_FEATURES"] = without
    start = time.monotonic()
    print(f"{title}:", flush=True)
    code = subprocess.run([sys.executable, "-m", "pytest", "-q", *arguments], env=environment, check=False)
    print(f"{title}: exit {code.returncode} after {time.monotonic() - start:.0f} s", flush=True)
    return code.returncode == 0


def _settings(full: bool) -> list[tuple[str, int]]:
    """Kernels with numbers of threads: every pair, or the fewest pairs in which each has a turn."""
    kernels = []
    for kernel in KERNELS if full else USUAL:
        needed = KERNELS[kernel][0]
        if _features().get(needed):
            kernels.append(kernel)
        else:
            print(f"{kernel}: SKIPPED, this processor has no {needed}", flush=True)
    if not full and len(kernels) == len(THREADS):
        return list(zip(kernels, THREADS, strict=True))
    return [(kernel, threads) for kernel in kernels or [OWN] for threads in THREADS]


def main(arguments: list[str]) -> int:
    """Run every setting, then say which failed."""
    chosen = [argument for argument in arguments if argument != "--full"] or _exact()
    settings = _settings(full="--full" in arguments)
    failed = [setting for setting in settings if not _run(*setting, chosen)]
    for kernel, threads in failed:
        print(f"FAILED under {kernel} with {threads} BLAS thread(s)")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
