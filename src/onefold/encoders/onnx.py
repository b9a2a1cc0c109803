"""Encoders that users bring: models in ONNX files, for texts, images and rows of numbers.

The file is foreign. It is read once, its bytes are what is identified and what is run, and weights in further
files are refused, because the digest would not cover them. Every record is run by itself: a batch would let
other records, by padding or by another order of additions, change the last digits of a vector.
"""

import hashlib
import io
import json
import math
import os
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from onefold._base.arrays import AnyArray, Array, Floats, Mask
from onefold._base.foreign import NOT_READABLE, parse_json
from onefold._base.optional import require
from onefold._base.parallel import run_parallel
from onefold._base.validation import (
    Entry,
    Instance,
    Number,
    OneOf,
    Several,
    Whole,
    check_parameters,
    check_rows,
)
from onefold.encoders.base import Encoder
from onefold.exceptions import InvalidInputError, OnefoldError

__all__ = [
    "WIDEST",
    "MapFiles",
    "MapSettings",
    "OnnxEncoder",
    "OnnxMap",
    "SentenceEncoder",
    "files_at",
    "image_below",
    "kind_of_model",
    "sentence_settings",
]

AnyPath = str | os.PathLike[str]

KINDS = ("text", "image", "rows")
POOLINGS = ("mean", "cls")
LARGEST_MODEL = 2**31 - 1  # what the file format allows
LARGEST_TOKENIZER = 100_000_000
LARGEST_CONFIG = 1_000_000
LONGEST_TEXT = 100_000  # characters; what is behind them is not read
LARGEST_IMAGE_FILE = 100_000_000
MOST_PIXELS = 50_000_000
IMAGE_FORMATS = ("BMP", "GIF", "JPEG", "PNG", "TIFF", "WEBP")
WIDEST = 2**16
TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
TYPES = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
}
# The key under which a tensor names another file, as every file of the format spells it: its length, which
# may have more bytes than it needs, and the word.
ELSEWHERE = re.compile(rb"(?:\x08|\x88\x80*\x00)location")


@dataclass(frozen=True)
class MapFiles:
    """Where the files of a map are.

    Parameters
    ----------
    model : Path
        The ONNX file.
    tokenizer : Path or None
        The tokenizer of a map of texts.
    """

    model: Path
    tokenizer: Path | None = None


@dataclass(frozen=True)
class MapSettings:
    """What a map does beside running its model; part of its digest.

    Parameters
    ----------
    kind : {"text", "image", "rows"}
        What it maps.
    pooling : {"mean", "cls"}
        What becomes of a vector for each token: their mean, or the first.
    output : str
        The output of the model that is taken; empty for the first.
    max_tokens : int
        Tokens of a text that are read.
    size : tuple of two int or None
        Height and width that images are brought to; None where the model fixes them.
    mean, std : tuple of float
        Taken off and divided by, for each channel of an image whose values are from 0 to 1.
    """

    kind: str
    pooling: str = "mean"
    output: str = ""
    max_tokens: int = 256
    size: tuple[int, int] | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)

    constraints: ClassVar[dict[str, Entry]] = {
        "kind": OneOf(KINDS),
        "pooling": OneOf(("mean", "cls")),
        "output": Instance(lambda name: isinstance(name, str), "the name of an output of the model"),
        "max_tokens": Whole(1, 2**16),
        "size": (Several(Whole(1, 4096), (2,), "a height and a width from 1 to 4096"), None),
        "mean": Several(Number(), (1, 3), "one or three finite numbers"),
        "std": Several(Number(above=0), (1, 3), "one or three finite numbers above 0"),
    }

    def __post_init__(self) -> None:
        check_parameters(self)


# --- files ------------------------------------------------------------------------------------------------


def files_at(path: AnyPath, tokenizer: AnyPath | None = None) -> MapFiles:
    """Find the files of a map: an ONNX file, or a folder as sentence encoders come in.

    Parameters
    ----------
    path : path
        An ONNX file, or a folder with ``model.onnx`` or ``onnx/model.onnx``.
    tokenizer : path or None, default=None
        The tokenizer; None looks for ``tokenizer.json`` beside the model and one folder above.

    Returns
    -------
    MapFiles
        The files.
    """
    model = Path(path)
    if model.is_dir():
        places = [model / "onnx" / "model.onnx", model / "model.onnx"]
        found = [place for place in places if place.is_file()]
        if not found:
            raise InvalidInputError(
                f"{path}: there is neither onnx/model.onnx nor model.onnx in this folder: export it first"
            )
        model = found[0]
    if tokenizer is not None:
        return MapFiles(model, Path(tokenizer))
    near = [model.parent / "tokenizer.json"]
    if model.parent.name == "onnx":
        near.append(model.parent.parent / "tokenizer.json")
    return MapFiles(model, next((place for place in near if place.is_file()), None))


def sentence_settings(folder: AnyPath, max_tokens: int | None = None) -> MapSettings:
    """Read what a folder of a sentence encoder says about pooling and length.

    Parameters
    ----------
    folder : path
        A folder with ``modules.json`` and ``1_Pooling/config.json``; without them the mean is taken.
    max_tokens : int or None, default=None
        Tokens of a text that are read; None for what the folder says, else 256.

    Returns
    -------
    MapSettings
        The settings of a map of texts.
    """
    top = Path(folder)
    for module in _config(top / "modules.json") or []:
        kind = str(module.get("type", "") if isinstance(module, dict) else "").rpartition(".")[2]
        if kind not in ("Transformer", "Pooling", "Normalize"):
            raise InvalidInputError(
                f"{folder}: its modules.json has a layer beside Transformer, Pooling and Normalize: export "
                "the model with it, and give the ONNX file to OnnxEncoder"
            )
    pooling = _config(top / "1_Pooling" / "config.json") or {}
    if not isinstance(pooling, dict):
        raise InvalidInputError(f"{folder}: 1_Pooling/config.json is not what it should be")
    prefix = "pooling_mode_"
    chosen = [
        key.removeprefix(prefix) for key, on in pooling.items() if key.startswith(prefix) and on is True
    ]
    known = {"mean_tokens": "mean", "cls_token": "cls"}
    if len(chosen) > 1 or (chosen and chosen[0] not in known):
        raise InvalidInputError(f"{folder}: only the mean of the tokens or the first token can be taken")
    told = _config(top / "sentence_bert_config.json") or {}
    longest = told.get("max_seq_length") if isinstance(told, dict) else None
    length: Any = longest if Whole(1, 2**16).accepts(longest) else 256
    length = length if max_tokens is None else max_tokens
    return MapSettings("text", known[chosen[0]] if chosen else "mean", max_tokens=length)


def _config(path: Path) -> Any:
    return parse_json(_content(path, LARGEST_CONFIG)) if path.is_file() else None


def _content(path: Path, largest: int) -> bytes:
    """The bytes of a regular file that is not too large."""
    try:
        if not path.is_file():
            raise InvalidInputError(f"{path}: there is no such file")
        with path.open("rb") as file:
            content = file.read(largest + 1)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > largest:
        raise InvalidInputError(f"{path}: larger than {largest} bytes")
    return content


# --- the map ----------------------------------------------------------------------------------------------


def kind_of_model(path: AnyPath) -> str:
    """Tell from the inputs of a model what it maps.

    Parameters
    ----------
    path : path
        The ONNX file.

    Returns
    -------
    str
        "text" if it takes numbers of tokens, "image" if its one input has four dimensions, else "rows".
    """
    inputs = _session(Path(path), _content(Path(path), LARGEST_MODEL)).get_inputs()
    if any(each.name == TEXT_INPUTS[0] for each in inputs):
        return "text"
    return "image" if len(inputs) == 1 and len(inputs[0].shape) == 4 else "rows"


def _session(where: Path, content: bytes) -> Any:
    """The model, ready to run; one whose numbers may be elsewhere is refused.

    A runtime opened from bytes looks for further files in the current folder, and old ones anywhere.
    """
    runtime: Any = require("onnxruntime", "onnx")
    if ELSEWHERE.search(content):
        raise InvalidInputError(
            f"{where}: its weights are in another file, which no digest would cover (or a part of the model "
            "has the name location): save it as one file"
        )
    options = runtime.SessionOptions()
    # One thread for each record, always in the same order: the last digits do not depend on the machine's
    # load. Records are spread over threads by us.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    options.add_session_config_entry("session.load_model_format", "ONNX")
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception:  # the classes of its errors are its own; its texts may be of many lines
        raise InvalidInputError(f"{where}: not an ONNX file that onnxruntime can load") from None


class OnnxMap:
    """A map of single records to vectors of length one, held by an ONNX file.

    Parameters
    ----------
    files : MapFiles
        The model, and the tokenizer of a map of texts.
    settings : MapSettings
        What is done beside running the model.
    known : str or None, default=None
        The digest that the map must have.

    Attributes
    ----------
    digest : str
        Sum of the files and the settings: maps with one digest do the same.
    width : int
        Numbers of a vector; 0 for rows, where it may depend on their length.
    """

    def __init__(self, files: MapFiles, settings: MapSettings, known: str | None = None) -> None:
        self.files, self.settings, self.where = files, settings, files.model
        model, tokens = _content(files.model, LARGEST_MODEL), None
        if settings.kind == "text":
            if files.tokenizer is None:
                raise InvalidInputError(
                    f"{self.where}: a map of texts needs a tokenizer: give tokenizer.json"
                )
            tokens = _content(files.tokenizer, LARGEST_TOKENIZER)
        self.digest = _digest(model, tokens, settings)
        if known not in (None, self.digest):
            raise InvalidInputError(f"{self.where}: the file is no longer what it was")
        self._session = _session(self.where, model)
        self._inputs = {each.name: each for each in self._session.get_inputs()}
        self._first: Any = next(iter(self._inputs.values()), None)
        self._output = self._check_ends()
        if tokens is not None:
            self._tokenizer = self._tokenizer_of(tokens)
        elif settings.kind == "image":
            self._check_image_input()
        self.width = 0  # of a text without tokens, while its width is found
        if settings.kind != "rows":
            self.width = self._width_of("a" if tokens else np.zeros((*self._size, self._channels)))

    def __reduce__(self) -> Any:
        return OnnxMap, (self.files, self.settings, self.digest)

    def vectors(self, records: Sequence[Any]) -> tuple[Floats, Mask]:
        """Map records, each by itself.

        Parameters
        ----------
        records : sequence
            Texts, rows of numbers, or paths of image files and None where there is no file.

        Returns
        -------
        vectors : ndarray of shape (n_records, width)
            Vectors of length one; zeros where nothing is left of a record, or where the model gives no finite
            numbers.
        readable : ndarray of bool of shape (n_records,)
            Which records could be read, and the model did not fail on.
        """
        found = run_parallel(self._vector, records)
        readable = np.array([vector is not None for vector in found], dtype=np.bool_)
        width = self.width or next((len(vector) for vector in found if vector is not None), 0)
        rows = [np.zeros(width) if vector is None else vector for vector in found]
        return np.array(rows).reshape(len(rows), width), readable

    def width_of_rows(self, n_features: int) -> int:
        """Return the numbers of a vector for rows of this length; rows the model does not take are refused.

        Parameters
        ----------
        n_features : int
            Numbers of a row.

        Returns
        -------
        int
            Numbers of its vector.
        """
        wanted = self._row_length()
        if wanted not in (None, n_features):
            raise InvalidInputError(f"X has {n_features} features, but {self.where} takes rows of {wanted}")
        return self._width_of(np.zeros(n_features))

    # --- what the model expects ---------------------------------------------------------------------------

    def _check_ends(self) -> str:
        """Refuse inputs that cannot be filled; return the output that is taken."""
        settings, outputs = self.settings, [each.name for each in self._session.get_outputs()]
        if settings.output and settings.output not in outputs:
            raise InvalidInputError(f"{self.where}: the model has no output {settings.output!r}")
        if any(each.type not in TYPES for each in self._inputs.values()):
            raise InvalidInputError(f"{self.where}: an input of the model is of a type that is not supported")
        if settings.kind != "text":
            if len(self._inputs) != 1:
                raise InvalidInputError(f"{self.where}: a model of {settings.kind} must have one input")
        elif TEXT_INPUTS[0] not in self._inputs or not set(self._inputs) <= set(TEXT_INPUTS):
            raise InvalidInputError(
                f"{self.where}: a model of texts takes input_ids, attention_mask and token_type_ids alone"
            )
        return settings.output or str(outputs[0])

    def _tokenizer_of(self, content: bytes) -> Any:
        tokenizers: Any = require("tokenizers", "text")
        try:
            found = tokenizers.Tokenizer.from_str(content.decode("utf-8"))
            found.no_padding()
            found.enable_truncation(self.settings.max_tokens)
        except Exception:  # its errors have no class of their own
            raise InvalidInputError(f"{self.where}: the tokenizer is no tokenizer.json, or damaged") from None
        return found

    def _check_image_input(self) -> None:
        """Which dimension holds the channels, and the height and width that images are brought to."""
        shape, settings = self._first.shape, self.settings
        if len(shape) != 4 or (shape[1] not in (1, 3) and shape[3] not in (1, 3)):
            raise InvalidInputError(f"{self.where}: the input is no image of one or three channels")
        self._channels_first = shape[1] in (1, 3)
        self._channels = int(shape[1] if self._channels_first else shape[3])
        fixed = shape[2:4] if self._channels_first else shape[1:3]
        given: Sequence[Any] = settings.size or (None, None)
        sizes = [
            own if isinstance(own, int) and own > 0 else want for own, want in zip(fixed, given, strict=True)
        ]
        if None in sizes:
            raise InvalidInputError(
                f"{self.where}: the model takes images of any size: give size=(HEIGHT, WIDTH)"
            )
        if settings.size is not None and tuple(sizes) != settings.size:
            raise InvalidInputError(f"{self.where}: the model takes images of {sizes[0]} x {sizes[1]} pixels")
        if max(len(settings.mean), len(settings.std)) > self._channels:
            raise InvalidInputError(f"{self.where}: mean and std must be one number: there is one channel")
        self._size = (int(sizes[0]), int(sizes[1]))

    def _row_length(self) -> int | None:
        """Numbers of a row that the model takes, None for any."""
        own = self._first.shape[1:]
        return math.prod(own) if all(isinstance(size, int) and size > 0 for size in own) else None

    def _width_of(self, trial: Any) -> int:
        """Numbers of a vector, from one record made up here; a model that cannot map it is refused."""
        try:
            found = len(self._run(trial))
        except OnefoldError:
            raise
        except Exception:
            one = self.settings.kind.removesuffix("s")
            raise InvalidInputError(f"{self.where}: the model cannot be run on a single {one}") from None
        if not 1 <= found <= WIDEST:
            raise InvalidInputError(f"{self.where}: its vectors must have from 1 to {WIDEST} numbers")
        return found

    # --- one record ---------------------------------------------------------------------------------------

    def _vector(self, record: Any) -> Floats | None:
        """Map one record to a vector of length one, or to zeros; None if it cannot be read or run."""
        try:
            found = self._run(self._pixels(record) if self.settings.kind == "image" else record)
        except OnefoldError:
            raise
        except Exception:  # what onnxruntime raises may repeat what it was given, and formats have own errors
            return None
        largest = np.abs(found).max(initial=0.0)
        if not 0.0 < largest < math.inf:  # NaN is neither
            return np.zeros(len(found))
        found = found / largest
        return np.asarray(found / np.sqrt(found @ found))

    def _run(self, record: Any) -> Floats:
        mask: Floats | None = None
        if self.settings.kind == "text":
            told = self._tokenizer.encode(str(record)[:LONGEST_TEXT])
            if not told.ids:
                return np.zeros(self.width or 1)
            mask = np.array(told.attention_mask, dtype=np.float64)
            parts = dict(zip(TEXT_INPUTS, (told.ids, told.attention_mask, told.type_ids), strict=True))
            feed = {
                name: np.array([parts[name]], dtype=TYPES[each.type]) for name, each in self._inputs.items()
            }
        else:
            kind, shape = TYPES[self._first.type], self._first.shape[1:]
            if self.settings.kind == "image":
                record = (record / 255.0 - np.array(self.settings.mean)) / np.array(self.settings.std)
                record = record.transpose(2, 0, 1) if self._channels_first else record
                shape = record.shape
            sizes = [size if isinstance(size, int) and size > 0 else -1 for size in shape]
            feed = {self._first.name: np.asarray(record, dtype=kind).reshape(1, *sizes)}
        return self._pooled(np.asarray(self._session.run([self._output], feed)[0], dtype=np.float64), mask)

    def _pooled(self, given: Floats, mask: Floats | None) -> Floats:
        """One vector of what the model gives: of one record, for each token, or for each place."""
        found = given[0] if given.ndim > 1 and len(given) == 1 else given
        if found.ndim == 1 and given.ndim > 1:
            return found
        if mask is not None and found.ndim == 2 and len(found) == len(mask):
            if self.settings.pooling == "cls":
                return np.asarray(found[0])
            return np.asarray(mask @ found / max(mask.sum(), 1.0))
        if self.settings.kind == "image" and found.ndim == 3:
            return np.asarray(found.mean(axis=(1, 2) if self._channels_first else (0, 1)))
        raise InvalidInputError(
            f"{self.where}: its output {self._output!r} is no vector, neither of a record nor of its parts"
        )

    def _pixels(self, path: Path) -> Array:
        """An image in the channels, height and width of the model, from 0 to 255."""
        pillow: Any = require("PIL.Image", "onnx")
        content = io.BytesIO(_content(path, LARGEST_IMAGE_FILE))
        with pillow.open(content, formats=IMAGE_FORMATS) as image:
            if math.prod(image.size) > MOST_PIXELS:
                raise ValueError("the image is too large")
            shown = image.convert("L" if self._channels == 1 else "RGB")
            shown = shown.resize(self._size[::-1], pillow.Resampling.BILINEAR)
            return np.asarray(shown, dtype=np.float32).reshape(*self._size, self._channels)


def _digest(model: bytes, tokens: bytes | None, settings: MapSettings) -> str:
    """Sum of what decides which vector a record gets."""
    told = {
        "version": 1,
        "model": hashlib.sha256(model).hexdigest(),
        "tokenizer": None if tokens is None else hashlib.sha256(tokens).hexdigest(),
        "settings": asdict(settings),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def image_below(folder: Path, name: str) -> Path | None:
    """Return the file of a name inside a folder; None if it leads out of it, or is no file.

    Parameters
    ----------
    folder : Path
        The folder.
    name : str
        A path relative to it, from a cell of a table.

    Returns
    -------
    Path or None
        The file.
    """
    try:
        top = folder.resolve()
        found = (top / name).resolve()
        inside = not Path(name).is_absolute() and ".." not in Path(name).parts and found.is_relative_to(top)
        return found if inside and found.is_file() else None
    except NOT_READABLE:
        return None


# --- encoders ---------------------------------------------------------------------------------------------


class _MapEncoder(Encoder):
    """What encoders in files share: the map is loaded by ``fit``, and rows may be texts or paths."""

    trained = True

    def _checked(self, X: Any, *, reset: bool) -> Any:
        if reset:
            self._map_of = ""
        if self.cell_map().settings.kind == "rows":
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

    def _new_map(self) -> OnnxMap:
        raise NotImplementedError

    def _identity(self) -> dict[str, Any]:
        return {"digest": self.digest}

    @property
    def digest(self) -> str:
        """Sum of the files and the settings; encoders with one digest make the same vectors."""
        return self.cell_map().digest

    def cell_map(self) -> OnnxMap:
        """Return the map itself, which :class:`onefold.tables.Field` takes for a column.

        Returns
        -------
        OnnxMap
            The map of the parameters as they are now.
        """
        given = repr(sorted(self.get_params(deep=False).items()))
        if getattr(self, "_map_of", None) != given:
            self._map, self._map_of = self._new_map(), given
        return self._map

    def _prepare(self, n_features: int) -> int:
        rows = self._map.settings.kind == "rows"
        return self._map.width_of_rows(n_features) if rows else self._map.width

    def _before(self, rows: Array) -> Array:
        return rows

    def _encode(self, rows: AnyArray) -> Array:
        kind = self._map.settings.kind
        records: Any = rows
        if kind != "rows":
            records = [self._place(cell) if kind == "image" else str(cell) for cell in rows[:, 0]]
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


@dataclass(eq=False, repr=False)
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

    path: AnyPath
    _: KW_ONLY
    tokenizer: AnyPath | None = None
    kind: Literal["text", "image", "rows"] | None = None
    pooling: Literal["mean", "cls"] = "mean"
    output: str = ""
    max_tokens: int = 256
    size: tuple[int, int] | None = None
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    folder: AnyPath | None = None

    def _new_map(self) -> OnnxMap:
        files = files_at(self.path, self.tokenizer)
        kind = kind_of_model(files.model) if self.kind is None else self.kind
        size: Any = None if self.size is None else tuple(self.size)
        mean, std = tuple(self.mean), tuple(self.std)
        settings = MapSettings(kind, self.pooling, self.output, self.max_tokens, size, mean, std)
        return OnnxMap(files, settings)


@dataclass(eq=False, repr=False)
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

    folder: AnyPath
    _: KW_ONLY
    max_tokens: int | None = None

    def _new_map(self) -> OnnxMap:
        if not Path(self.folder).is_dir():
            raise InvalidInputError(f"{self.folder}: there is no such folder")
        return OnnxMap(files_at(self.folder), sentence_settings(self.folder, self.max_tokens))
