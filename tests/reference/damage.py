"""Files with one byte changed: a reader must refuse them, or find what was in them all the same."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from onefold.exceptions import FileFormatError


def refusals(path: Path, places: Iterable[int], answer: Callable[[], np.ndarray]) -> list[str]:
    """What ``answer``, which loads the file and uses it, says of each damage.

    Where it does not refuse, the byte was one that changes nothing, such as a date or a padding.
    """
    whole, expected, found = bytearray(path.read_bytes()), answer(), []
    for place in places:
        damaged = whole.copy()
        damaged[place] ^= 0x41
        path.write_bytes(damaged)
        try:
            got = answer()
        except FileFormatError as error:
            found.append(str(error))
        else:
            np.testing.assert_array_equal(got, expected)
    path.write_bytes(whole)
    return found
