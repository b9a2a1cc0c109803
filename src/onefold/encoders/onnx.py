"""Encoders that users bring: models in ONNX files, for texts, images and rows of numbers."""

import os
from pathlib import Path
from typing import Any, Literal

import numpy as np

from onefold._base.arrays import AnyArray, Array
from onefold._base.onnx_map import (
    KINDS,
    MapSettings,
    OnnxMap,
    files_at,
    image_below,
    kind_of_model,
    sentence_settings,
)
from onefold._base.validation import check_rows
from onefold.encoders._encoder import Encoder
from onefold.exceptions import InvalidInputError
from onefold.tables import CellEncoder

__all__ = ["OnnxEncoder", "SentenceEncoder"]

AnyPath = str | os.PathLike[str]


class _MapEncoder(Encoder):
    """What encoders in files share: the map is loaded by ``fit``, and rows may be texts or paths."""

    trained = True

    def _checked(self, X: Any, *, reset: bool) -> Any:
        self._load(again=reset)
        if self._map.settings.kind == "rows":
            return check_rows(self, X, reset=reset)
        cells = np.asarray(X, dtype=object)
        if cells.ndim == 2 and cells.shape[1] == 1:
            cells = cells[:, 0]
        if cells.ndim != 1 or not len(cells):
            raise InvalidInputError(
                f"X must be one {self._map.settings.kind} or its path per row, at least one"
            )
        if not all(isinstance(cell, (str, os.PathLike)) for cell in cells):
            raise InvalidInputError("X must hold nothing but texts: fill in what is missing first")
        self.n_features_in_ = 1
        return np.column_stack([cells, np.arange(1, len(cells) + 1)])  # each with its number, for messages

    def _load(self, again: bool = False) -> None:
        """Load the map if its parameters are not those that it was loaded with, or if it is asked for."""
        given = repr(sorted(self.get_params(deep=False).items()))
        if again or getattr(self, "_loaded_with", None) != given:
            self._map, self._loaded_with = self._new_map(), given

    def _new_map(self) -> OnnxMap:
        raise NotImplementedError

    def _identity(self) -> dict[str, Any]:
        return {"digest": self.digest}

    @property
    def digest(self) -> str:
        """Sum of the files and the settings; encoders with one digest make the same vectors."""
        self._load()
        return self._map.digest

    def cell_encoder(self) -> CellEncoder:
        """Return the encoder for a column of a table, as :class:`onefold.tables.Field` takes it.

        Returns
        -------
        CellEncoder
            The same map.
        """
        self._load()
        return CellEncoder.of_map(self._map)

    def _prepare(self, n_features: int) -> int:
        rows = self._map.settings.kind == "rows"
        return self._map.width_of_rows(n_features) if rows else self._map.width

    def _before(self, rows: Array) -> Array:
        return rows

    def _encode(self, rows: AnyArray) -> Array:
        kind = self._map.settings.kind
        if kind == "image":
            found, readable = self._map.images([self._place(cell) for cell in rows[:, 0]])
        else:
            records = rows if kind == "rows" else [str(cell) for cell in rows[:, 0]]
            found, readable = self._map.vectors(records)
        if not readable.all():
            which = int(np.argmin(readable))
            if kind == "rows":
                raise InvalidInputError(f"{self._map.files.model}: the model fails on a row")
            told = "cannot be read as an image" if kind == "image" else "the model fails on it"
            raise InvalidInputError(f"row {rows[which, 1]}: {told}")
        return found

    def _place(self, cell: Any) -> Path | None:
        folder = getattr(self, "folder", None)
        return Path(cell) if folder is None else image_below(Path(folder), str(cell))


class OnnxEncoder(_MapEncoder):
    """A model in an ONNX file as an encoder of texts, images or rows of numbers.

    Parameters
    ----------
    path : path
        The ONNX file. Its weights must be inside: those in another file are refused.
    tokenizer : path or None, default=None
        The ``tokenizer.json`` of a model of texts; None looks for it beside the model, and one folder above
        if the model is in a folder called ``onnx``.
    kind : {"text", "image", "rows"} or None, default=None
        What is encoded. None follows from the inputs of the model: ``input_ids`` are of texts, one input of
        four dimensions is an image, anything else takes rows of numbers.
    pooling : {"mean", "cls"}, default="mean"
        Where the model gives a vector for each token: their mean, or the first.
    output : str, default=""
        Name of the output to take; empty for the first one.
    max_tokens : int, default=256
        Tokens of a text that are read; what is behind them is not.
    size : tuple of two int or None, default=None
        Height and width that images are brought to, by bilinear interpolation without cutting anything off.
        None where the model fixes them.
    mean : tuple of float, default=(0.0,)
        Taken off each channel of an image whose values are from 0 to 1, before ``std`` divides.
    std : tuple of float, default=(1.0,)
        What each channel is divided by.
    folder : path or None, default=None
        Folder below which all images must be, to which their paths are relative. None takes any path.

    Attributes
    ----------
    entry_span : float
        Largest difference between two values of an encoded entry.
    trained : bool
        Always True: whoever made the file may have trained it on any data.
    n_features_in_ : int
        Number of features of the rows; 1 for texts and images.

    See Also
    --------
    SentenceEncoder : The same from a folder of a sentence encoder.
    onefold.tables.Field : Takes an encoder for a column of texts or paths.

    Notes
    -----
    Every record is encoded by itself, on one thread and on the processor, never in a batch: its vector
    depends on no other record. Another processor or another version of onnxruntime may give other last
    digits. Rows have norm one; a record of which the model makes zeros, or numbers that are not finite, is
    zero.

    A model is a program: it may take any time and memory, so use files of people you trust, and compare the
    ``digest``. Nothing is downloaded, and no libraries of further operators are loaded.

    **An encoder costs no privacy budget only if it was not trained on the records that are protected.** No
    program can check that: guarantees of what is made with it name it as a condition.

    Needs ``pip install 'onefold[onnx]'``, for texts ``'onefold[text]'``.

    Examples
    --------
    >>> from onefold.encoders import OnnxEncoder, learns
    >>> learns(OnnxEncoder("model.onnx"))
    False
    """

    def __init__(
        self,
        path: AnyPath,
        *,
        tokenizer: AnyPath | None = None,
        kind: Literal["text", "image", "rows"] | None = None,
        pooling: Literal["mean", "cls"] = "mean",
        output: str = "",
        max_tokens: int = 256,
        size: tuple[int, int] | None = None,
        mean: tuple[float, ...] = (0.0,),
        std: tuple[float, ...] = (1.0,),
        folder: AnyPath | None = None,
    ) -> None:
        self.path = path
        self.tokenizer = tokenizer
        self.kind = kind
        self.pooling = pooling
        self.output = output
        self.max_tokens = max_tokens
        self.size = size
        self.mean = mean
        self.std = std
        self.folder = folder

    def _new_map(self) -> OnnxMap:
        if self.kind is not None and self.kind not in KINDS:
            raise InvalidInputError(f"kind must be None or one of {', '.join(KINDS)}")
        files = files_at(self.path, self.tokenizer)
        kind = kind_of_model(files.model) if self.kind is None else self.kind
        size: Any = None if self.size is None else tuple(self.size)
        mean, std = tuple(self.mean), tuple(self.std)
        settings = MapSettings(kind, self.pooling, self.output, self.max_tokens, size, mean, std)
        return OnnxMap(files, settings)


class SentenceEncoder(_MapEncoder):
    """A sentence encoder in a local folder: a transformer in ONNX, a tokenizer, and how tokens are pooled.

    The folder is one as sentence encoders are published in: ``onnx/model.onnx`` or ``model.onnx``,
    ``tokenizer.json``, and if they are there ``modules.json``, ``1_Pooling/config.json`` and
    ``sentence_bert_config.json``. It is run by onnxruntime and the tokenizers package alone: a site needs
    neither a framework for training nor a client of a model hub, and no code from the folder is executed.

    Parameters
    ----------
    folder : path
        The folder. Nothing is downloaded into it.
    max_tokens : int or None, default=None
        Tokens of a text that are read; None for what the folder says, else 256.

    Attributes
    ----------
    entry_span : float
        Largest difference between two values of an encoded entry.
    trained : bool
        Always True: sentence encoders are trained on texts.
    n_features_in_ : int
        Always 1.

    See Also
    --------
    OnnxEncoder : One ONNX file, with other settings.

    Notes
    -----
    What :class:`OnnxEncoder` says about single records, digits, trust and privacy holds here too: an encoder
    costs no privacy budget only if it was not trained on the records that are protected. Only folders whose
    layers are a transformer, pooling by the mean or the first token, and scaling to length one are taken;
    vectors always have length one.

    Needs ``pip install 'onefold[text]'``.

    Examples
    --------
    >>> from onefold.encoders import SentenceEncoder
    >>> SentenceEncoder("models/minilm")
    SentenceEncoder(folder='models/minilm')
    """

    def __init__(self, folder: AnyPath, *, max_tokens: int | None = None) -> None:
        self.folder = folder
        self.max_tokens = max_tokens

    def _new_map(self) -> OnnxMap:
        if not Path(self.folder).is_dir():
            raise InvalidInputError(f"{self.folder}: there is no such folder")
        return OnnxMap(files_at(self.folder), sentence_settings(self.folder, self.max_tokens))
