"""Write dev.lock and all.lock: an exact version and the hashes of every package, no index addresses.

Run through `make lock`, inside an environment that has pip-tools. With `--keep` the versions that are locked
already stay, and only what is new is chosen.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
LIGHT = ("dev", "report")  # what `make demo` and `make bench` need
FULL = (*LIGHT, "accounting", "excel", "federated", "fhe", "onnx", "sql", "text")


def compile_lock(name: str, extras: tuple[str, ...], *options: str) -> None:
    """Resolve the extras of pyproject.toml into one file of exact versions."""
    target = HERE / name
    chosen = [f"--extra={extra}" for extra in extras]
    quiet = ["--quiet", "--strip-extras", "--no-header", "--no-emit-index-url", "--no-emit-find-links"]
    tool = [sys.executable, "-m", "piptools", "compile", "--generate-hashes", *quiet]
    if "--keep" not in sys.argv:
        tool.append("--upgrade")
    arguments = [
        *tool,
        *chosen,
        *options,
        "--no-emit-trusted-host",
        "--allow-unsafe",
        f"--output-file={target}",
    ]
    subprocess.run([*arguments, "pyproject.toml"], cwd=HERE.parent, check=True)


if __name__ == "__main__":
    # The light environment is a part of the full one: no package may have two versions.
    compile_lock("all.lock", FULL)
    compile_lock("dev.lock", LIGHT, f"--constraint={Path('requirements') / 'all.lock'}")
