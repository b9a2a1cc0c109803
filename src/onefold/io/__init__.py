"""Save and load anything fitted, without pickle: nothing in a file is ever executed.

A file is an archive of arrays and a description with checksums (``onefold._base.archive``). The sums show
damage and careless edits. They are no signature: take files from people you trust.

A file holds all that answering needs, so that loading is reading. With ``compact=True`` it holds the training
samples and a few numbers, hardly more than the data, and machines are fitted again when it is loaded. Either
way **a saved model contains the samples it was fitted on** (or what was computed from them): if they are
private, so is the file.
"""

from onefold._base.archive import FORMAT
from onefold.io._files import from_bytes, load, load_extras, load_untrusted, register, save, to_bytes
from onefold.io._models import from_parts, to_parts

__all__ = [
    "FORMAT",
    "from_bytes",
    "from_parts",
    "load",
    "load_extras",
    "load_untrusted",
    "register",
    "save",
    "to_bytes",
    "to_parts",
]
