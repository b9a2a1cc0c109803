"""Save and load anything fitted, without pickle: nothing in a file is ever executed.

A file is a record (``onefold._base.records``): the name of a class, its parameters and its arrays, with a
checksum. The sum shows damage and careless edits. It is no signature: take files from people you trust.

A file holds all that answering needs, so that loading is reading. With ``compact=True`` it holds the training
samples and a few numbers, hardly more than the data, and machines are fitted again when it is loaded. Either
way **a saved model contains the samples it was fitted on** (or what was computed from them): if they are
private, so is the file.
"""

import os
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import Any, cast

from onefold import models
from onefold._base.arrays import AnyArray, Arrays
from onefold._base.confined import MEGABYTES, SECONDS, try_confined
from onefold._base.files import read_saved, write_whole
from onefold._base.records import kind_of, pack
from onefold._base.stored import CLASSES, Contents, Stored, contents_of
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.models.head import TableHead
from onefold.privacy import Guarantee, PrivateMoments
from onefold.tables import Schema

__all__ = [
    "from_bytes",
    "load",
    "load_extras",
    "load_untrusted",
    "register",
    "save",
    "to_bytes",
]

OURS = {
    kind.__name__: kind
    for kind in (*map(vars(models).get, models.__all__), TableHead, PrivateMoments, Guarantee, Schema)
    if isinstance(kind, type) and (issubclass(kind, Stored) or kind in (Guarantee, Schema))
}
CLASSES.update(OURS)
# Things that are no models save and load themselves: their class by the kind of their file.
_OTHERS: dict[str, type] = {}
# Where kinds are registered by rooms above this one, which are imported when such a file comes.
HOMES = {
    "private source": "onefold.transfer",
    "transfer classifier": "onefold.transfer",
    "moment classifier": "onefold.fabrication",
    "moment regressor": "onefold.fabrication",
    "table counts": "onefold.fabrication",
    "table synthesizer": "onefold.fabrication",
}


def register(kind: str, cls: type) -> None:
    """Let :func:`save` and :func:`load` take things of another class.

    Parameters
    ----------
    kind : str
        The kind of its files; for an autoencoder the name of its class.
    cls : type
        A class with a method ``save(path)`` and a class method ``load(path)``, or a family of models: a
        subclass of :class:`onefold.models.Autoencoder`. Such a model, and classifiers that use it, are then
        written and read like those of onefold. Who reads the file must have registered the class too.

    Raises
    ------
    InvalidInputError
        A family is to be registered under another name than its own, or under one of onefold's.

    See Also
    --------
    save : Write things of all registered classes.
    load : Read them.

    Examples
    --------
    >>> from onefold import io
    >>> from onefold.models import KAHM
    >>> io.register("KAHM", KAHM)
    """
    if not issubclass(cls, Stored):
        _OTHERS[kind] = cls
    elif kind != cls.__name__:
        raise InvalidInputError(f"a family is registered by the name of its class, {cls.__name__}")
    elif kind in OURS and CLASSES[kind] is not cls:
        raise InvalidInputError(f"onefold has a {kind} of its own: choose another name")
    else:
        CLASSES[kind] = cls


def save(
    model: Any,
    path: str | os.PathLike[str],
    extras: Mapping[str, AnyArray] | None = None,
    *,
    compact: bool = False,
) -> None:
    """Write a fitted model to a file, replacing what was there only when all is written.

    Parameters
    ----------
    model : fitted model
        One of onefold's autoencoders, classifiers or regressions; also ``PrivateMoments``, a
        ``PrivateSource``, a ``TransferClassifier``, a ``MomentClassifier``, a ``MomentRegressor``, a
        ``TableSynthesizer`` or its ``TableCounts``. A ``guarantee_`` of a model is written too.
    path : path
        Where to write.
    extras : mapping of str to ndarray or None, default=None
        Further arrays to keep in the file of a model, for :func:`load_extras`.
    compact : bool, default=False
        Write a small file without what can be computed again from the samples. Loading it takes about half
        the time of fitting, and gives the same model.

    See Also
    --------
    load : Read the file.
    to_bytes : The same content without a file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from onefold import KAHM, io
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> model = KAHM(2, scale="auto").fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     io.save(model, Path(folder) / "model")
    ...     loaded = io.load(Path(folder) / "model")
    >>> bool(np.array_equal(loaded.distance(X), model.distance(X)))
    True
    """
    if isinstance(model, tuple(_OTHERS.values())):
        if extras:
            raise InvalidInputError("extras can be saved with a model only")
        cast(Any, model).save(path)
    else:
        write_whole(path, to_bytes(model, extras, compact=compact))


def to_bytes(model: Any, extras: Mapping[str, AnyArray] | None = None, *, compact: bool = False) -> bytes:
    """Return what :func:`save` writes, as bytes.

    Parameters
    ----------
    model : fitted model
        As in :func:`save`.
    extras : mapping of str to ndarray or None, default=None
        As in :func:`save`.
    compact : bool, default=False
        As in :func:`save`.

    Returns
    -------
    bytes
        The content of a file.

    See Also
    --------
    from_bytes : Read them.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold import KAHM, io
    >>> model = KAHM(1, scale=1.0).fit(np.eye(3))
    >>> type(io.from_bytes(io.to_bytes(model))).__name__
    'KAHM'
    """
    if not isinstance(model, Stored):
        raise InvalidInputError(
            f"cannot save a {type(model).__name__}: not one of {', '.join(sorted(CLASSES))}"
        )
    return pack(model.kind, model.version, Contents.of(model, extras), compact=compact)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what :func:`save` wrote; a damaged, foreign or newer file is refused.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    model
        The fitted model, which answers as the saved one did: bit for bit on the same processor.

    Raises
    ------
    FileFormatError
        The file is damaged, of another program, or of a newer version.
    InvalidInputError
        There is no such file.

    See Also
    --------
    save : Write the file.
    load_extras : Read the arrays that were saved with a model.

    Examples
    --------
    >>> from onefold import io
    >>> io.load("no such file")
    Traceback (most recent call last):
    onefold.exceptions.InvalidInputError: there is no model file at no such file
    """
    kind = kind_of(path)
    if kind is None and os.path.isfile(path):
        raise FileFormatError(f"{os.fspath(path)}: not a model file, or damaged")
    if kind in HOMES:
        import_module(HOMES[kind])  # which registers it
    if kind in _OTHERS:
        cls: Any = _OTHERS[kind]
        return cls.load(path)
    kinds = {cls.kind for cls in CLASSES.values() if issubclass(cls, Stored)} & {kind}
    read = partial(contents_of, kind=kinds.pop() if kinds else Stored.kind)
    return read_saved(path, "there is no model file", read).model


def load_untrusted(
    path: str | os.PathLike[str], *, megabytes: int = MEGABYTES, seconds: int = SECONDS
) -> Any:
    """Read a file of somebody who may want to exhaust this computer: first in a child process with limits.

    The child opens the file as :func:`load` does. Only if it ends within the limits is the file opened here,
    which then takes no more. It costs about two seconds, the start of the child, and reading twice. The file
    must be one that nobody else can change meanwhile.

    Parameters
    ----------
    path : path
        The file.
    megabytes : int, default=1024
        Memory that opening it may take.
    seconds : int, default=60
        Processor time that opening it may take.

    Returns
    -------
    model
        As :func:`load` returns it.

    Raises
    ------
    FileFormatError
        The file is damaged or of another program, or opening it takes more than the limits.

    See Also
    --------
    load : Read a file that you trust.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from onefold import KAHM, io
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     io.save(KAHM(1, scale=1.0).fit(np.eye(3)), Path(folder) / "model")
    ...     io.load_untrusted(Path(folder) / "model")
    KAHM(n_components=1, scale=1.0)
    """
    try_confined("onefold.io:load", path, megabytes=megabytes, seconds=seconds)
    return load(path)


def from_bytes(content: bytes, largest_machine: int | None = None) -> Any:
    """Read what :func:`to_bytes` wrote; anything else is refused.

    Parameters
    ----------
    content : bytes
        The content of a file of a model.
    largest_machine : int or None, default=None
        Refuse machines of more samples than this. Rebuilding a machine of N samples from a compact file takes
        N x N numbers: give it for bytes from somebody who may want to exhaust this computer's memory.

    Returns
    -------
    model
        The fitted model.

    Raises
    ------
    FileFormatError
        The bytes are no model, or one with too large a machine.

    See Also
    --------
    to_bytes : Write them.

    Examples
    --------
    >>> from onefold import io
    >>> io.from_bytes(b"something else")
    Traceback (most recent call last):
    onefold.exceptions.FileFormatError: not a file of onefold, or damaged
    """
    return contents_of(content, Stored.kind, Stored.version, largest_machine).model


def load_extras(path: str | os.PathLike[str] | bytes) -> Arrays:
    """Read the further arrays that were given to :func:`save` or :func:`to_bytes`.

    Parameters
    ----------
    path : path or bytes
        The file of a model, or its content.

    Returns
    -------
    dict of str to ndarray
        The arrays by their names; empty if there were none.

    See Also
    --------
    save : Write them.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from onefold import KAHM, io
    >>> model = KAHM(1, scale=1.0).fit(np.eye(3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     io.save(model, Path(folder) / "model", {"ids": np.arange(3)})
    ...     io.load_extras(Path(folder) / "model")
    {'ids': array([0, 1, 2])}
    """
    if isinstance(path, bytes):
        return contents_of(path, Stored.kind).extras
    return read_saved(path, "there is no model file", load_extras)
