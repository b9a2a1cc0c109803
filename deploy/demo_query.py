"""Ask the federation of the demonstration about new.csv and print the accuracy.

Run as ``python demo_query.py FOLDER``, where the server's folder is FOLDER/federation/server.
"""

# ruff: noqa: T201

import sys
from pathlib import Path

import numpy as np

from onefold.federated.flower import Federation
from onefold.tables import read_table

SITES = ["north", "south"]
SECONDS = 300  # for the sites to fit their models and to connect


def main() -> int:
    """Wait for both sites, ask, compare."""
    folder = Path(sys.argv[1])
    table = read_table(folder / "new.csv")
    columns = [name for name in table if name != "diagnosis"]
    rows = np.column_stack([table[name].astype(float) for name in columns])
    federation = Federation(folder / "federation" / "server")
    federation.wait_for(SITES, timeout=SECONDS)
    result = federation.query(rows, columns=columns, timeout=SECONDS)
    right = float(np.mean(result.predictions.astype(str) == table["diagnosis"].astype(str)))
    print(
        f"{len(rows)} rows, sites missing: {list(result.missing) or 'none'}, accuracy {right:.3f}", flush=True
    )
    return 0 if not result.partial and right > 0.8 else 1


if __name__ == "__main__":
    sys.exit(main())
