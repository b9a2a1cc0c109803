"""Saving and loading fitted models without pickle: nothing in a file is ever executed.

A file is an uncompressed zip archive of ``.npy`` arrays and one ``manifest.json`` with a format number, the
model's parameters, and a SHA-256 sum of every array; the sum of the manifest stands in the archive's comment.
The sums show damage and careless edits. They are no signature: take models from people you trust.

The arrays are the training samples and a few scalars; of fuzzy models, their rules; of membership-mappings,
inducing points and weights. Factors of N x N size are rebuilt when loading, so a file is hardly larger than
the data. **A saved model contains the samples it was fitted on** (or what was computed from them): if
they are private, so is the file.
"""

from onefold.io._archive import FORMAT
from onefold.io._models import from_bytes, load, load_extras, save, to_bytes

__all__ = ["FORMAT", "from_bytes", "load", "load_extras", "save", "to_bytes"]
