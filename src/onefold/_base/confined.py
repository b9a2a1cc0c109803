"""Open a stranger's file in a child process first, with limits of memory and of time.

Readers bound every count by the bytes that are there, but some work grows faster than its bytes: a compact
model of N samples is fitted again by a matrix of N x N numbers. A server must not find out in its own process
what a file costs. :func:`try_confined` lets a child do the same work within limits; if the child ends well,
so will the parent, because reading a file has no other input than the file.

On systems without ``resource`` (Windows) only the time is limited.
"""

import importlib
import os
import subprocess
import sys
from pathlib import Path

from onefold.exceptions import FileFormatError, OnefoldError

MEGABYTES = 1024
SECONDS = 60
# A busy machine may let a child wait for longer than it computes.
PATIENCE = 5
REFUSED = 3  # exit code of a child that says why, in an error of ours
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")


def try_confined(
    function: str, path: str | os.PathLike[str], *, megabytes: int = MEGABYTES, seconds: int = SECONDS
) -> None:
    """Call a function with the path of a file in a child process, and return if it returns.

    It costs the start of an interpreter with numpy and scikit-learn, about two seconds of processor time,
    and what the function costs.

    Parameters
    ----------
    function : str
        Name of the function, ``package.module:name``; it takes the path, and what it returns is dropped.
    path : path
        The file.
    megabytes : int, default=1024
        Memory that the function may take, beyond what the interpreter takes before.
    seconds : int, default=60
        Processor time that it may take.

    Raises
    ------
    FileFormatError
        The function raised an error, or took more than it may.

    Examples
    --------
    >>> try_confined("onefold.io:load", "no such file")
    Traceback (most recent call last):
    onefold.exceptions.FileFormatError: there is no model file at no such file
    """
    command = [sys.executable, "-P", "-m", "onefold._base.confined", function, os.fspath(path)]
    where = os.fspath(path)
    try:
        done = subprocess.run(
            [*command, str(megabytes), str(seconds)],
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": _search_path()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE * seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise FileFormatError(f"{where}: opening it takes more than {PATIENCE * seconds} s") from None
    if done.returncode == REFUSED:
        raise FileFormatError(done.stdout.decode("utf-8", "replace").strip() or f"{where}: cannot be opened")
    if done.returncode != 0:
        raise FileFormatError(f"{where}: opening it takes more than {megabytes} MB or {seconds} s, or fails")


def _search_path() -> str:
    """Where the child finds the same package, however this process found it."""
    own, given = str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys((own, *filter(None, given))))


# --- in the child -------------------------------------------------------------------------------------------


def _main(function: str, path: str, megabytes: str, seconds: str) -> int:
    module, _, name = function.partition(":")
    call = getattr(importlib.import_module(module), name)
    _limit(int(megabytes) * 2**20, int(seconds))
    try:
        call(path)
    except OnefoldError as error:
        sys.stdout.buffer.write(str(error).encode())
        return REFUSED
    return 0


if sys.platform == "win32":

    def _limit(n_bytes: int, seconds: int) -> None:
        """Do nothing: this system has no such limits."""

else:
    import resource

    def _limit(n_bytes: int, seconds: int) -> None:
        """Let this process have so much more memory, and so much more processor time, and no core file."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        spent = int(used.ru_utime + used.ru_stime) + 1
        for kind, most in (
            (resource.RLIMIT_AS, _address_space() + n_bytes),
            (resource.RLIMIT_CPU, spent + seconds),
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_FSIZE, 0),  # reading writes nothing
        ):
            hard = resource.getrlimit(kind)[1]
            lowest = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(kind, (lowest, lowest))

    def _address_space() -> int:
        """Bytes that this process has mapped so far."""
        try:
            pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        except (OSError, ValueError):  # not Linux: more than libraries map
            return 4 * 2**30
        return pages * resource.getpagesize()


if __name__ == "__main__":
    sys.exit(_main(*sys.argv[1:]))
