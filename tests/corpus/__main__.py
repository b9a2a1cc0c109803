"""``python -m tests.corpus`` stores what this version makes of the tables, ``TABLE ...`` of some of them."""

import sys

from .outputs import labels, store


def main() -> None:
    for table in sys.argv[1:] or labels():
        store(table)
        print(table)


if __name__ == "__main__":
    main()
