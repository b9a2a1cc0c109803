"""Fashion-MNIST from Debian's package, as a file that `onefold.datasets` reads.

python -m experiments.privacy.fashion FOLDER  # writes FOLDER/fashion_mnist.npz, with apt-get and dpkg-deb

Nothing is installed: the package is downloaded into a temporary folder and unpacked there.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from experiments.data.tables import idx

PACKAGE = "dataset-fashion-mnist"
INSTALLED = Path("/usr/share/datasets/fashion-mnist")


def arrays(folder: Path) -> dict[str, NDArray[np.uint8]]:
    """Images and labels of both parts, under the names of the other image files."""
    found = {}
    for part, name in (("train", "train"), ("test", "t10k")):
        found[f"X_{part}"] = idx(folder / f"{name}-images-idx3-ubyte.gz")
        found[f"y_{part}"] = idx(folder / f"{name}-labels-idx1-ubyte.gz")
    return found


def unpacked(folder: Path) -> Path:
    """Where the files are: installed already, or downloaded and unpacked into ``folder``."""
    if INSTALLED.is_dir():
        return INSTALLED
    subprocess.run(["apt-get", "download", PACKAGE], cwd=folder, check=True)
    archive = next(folder.glob(f"{PACKAGE}_*.deb"))
    subprocess.run(["dpkg-deb", "-x", str(archive), str(folder)], check=True)
    return folder / INSTALLED.relative_to("/")


def main() -> None:
    """Write the file into the folder that the command line names."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m experiments.privacy.fashion FOLDER")
    with tempfile.TemporaryDirectory() as folder:
        found = arrays(unpacked(Path(folder)))
    Path(sys.argv[1]).mkdir(parents=True, exist_ok=True)
    np.savez_compressed(Path(sys.argv[1]) / "fashion_mnist.npz", **found)  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
