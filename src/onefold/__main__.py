"""``python -m onefold`` is the ``onefold`` command."""

import sys

from onefold.cli.app import main

if __name__ == "__main__":
    sys.exit(main())
