"""Maps of single texts, images or rows to vectors, as ONNX files hold them: read, identified and run.

The file is foreign. It is read once, its bytes are what is identified and what is run, and weights in further
files are refused, because the digest would not cover them. Every record is run by itself: a batch would let
other records, by padding or by another order of additions, change the last digits of a vector.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray, Array, Floats, Mask
from onefold._base.foreign import NOT_READABLE, parse_json
from onefold._base.optional import require
from onefold._base.parallel import run_parallel
from onefold.exceptions import InvalidInputError, MissingDependencyError, OnefoldError

__all__ = [
    "KINDS",
    "WIDEST",
    "MapFiles",
    "MapSettings",
    "OnnxMap",
    "files_at",
    "image_below",
    "kind_of_model",
    "sentence_settings",
]

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
BLOCK = 8  # records that one thread encodes before it takes the next
TEXT_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
TYPES = {
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
}


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

    def __post_init__(self) -> None:
        wrong = self._objection()
        if wrong:
            raise InvalidInputError(f"encoder: {wrong}")

    def _objection(self) -> str | None:
        if self.kind not in KINDS:
            return f"kind must be one of {', '.join(KINDS)}"
        if self.pooling not in POOLINGS:
            return f"pooling must be one of {', '.join(POOLINGS)}"
        if not isinstance(self.output, str) or len(self.output) > 1000:
            return "output must be the name of an output of the model"
        if not _whole(self.max_tokens, 1, 2**16):
            return "max_tokens must be a whole number from 1 to 65536"
        sizes = self.size is None or (
            isinstance(self.size, tuple)
            and len(self.size) == 2
            and all(_whole(n, 1, 4096) for n in self.size)
        )
        if not sizes:
            return "size must be a height and a width from 1 to 4096"
        for name, values in (("mean", self.mean), ("std", self.std)):
            numbers = isinstance(values, tuple) and len(values) in (1, 3) and all(map(_finite, values))
            if not numbers or (name == "std" and min(values) <= 0):
                return f"{name} must be one or three finite numbers{', above 0' if name == 'std' else ''}"
        return None


def _whole(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


# --- files ------------------------------------------------------------------------------------------------


def files_at(path: str | os.PathLike[str], tokenizer: str | os.PathLike[str] | None = None) -> MapFiles:
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


def sentence_settings(folder: str | os.PathLike[str], max_tokens: int | None = None) -> MapSettings:
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
    length: Any = max_tokens if max_tokens is not None else longest if _whole(longest, 1, 2**16) else 256
    return MapSettings("text", known[chosen[0]] if chosen else "mean", max_tokens=length)


def _config(path: Path) -> Any:
    return parse_json(_content(path, LARGEST_CONFIG)) if path.is_file() else None


def _content(path: Path, largest: int) -> bytes:
    """The bytes of a regular file that is not too large."""
    try:
        if not path.is_file():
            raise InvalidInputError(f"{path}: there is no such file")
        if path.stat().st_size > largest:
            raise InvalidInputError(f"{path}: larger than {largest} bytes")
        with path.open("rb") as file:
            content = file.read(largest + 1)
    except OSError as error:
        raise InvalidInputError(f"{path}: cannot be read ({error.strerror})") from None
    if len(content) > largest:
        raise InvalidInputError(f"{path}: larger than {largest} bytes")
    return content


# What holds what in the messages of an ONNX file, by the numbers of their fields.
PARTS: dict[str, dict[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "function": {7: "node", 11: "attribute"},
    "tensor": {},
}
DEEPEST = 30
EXTERNAL = (13, 14)  # of a tensor: where else its numbers are, and that they are elsewhere


def has_external_data(content: bytes) -> bool:
    """Tell whether an ONNX file takes numbers from another file.

    Parameters
    ----------
    content : bytes
        The file.

    Returns
    -------
    bool
        Whether it does. What cannot be followed raises ValueError or IndexError.
    """
    todo = [("model", memoryview(content), 0)]
    while todo:
        kind, part, depth = todo.pop()
        if depth > DEEPEST:
            raise ValueError("nested too deeply")
        parts, at = PARTS[kind], 0
        while at < len(part):
            key, at = _varint(part, at)
            field, wire = key >> 3, key & 7
            start = at
            if wire == 0:
                value, at = _varint(part, at)
                if kind == "tensor" and field == EXTERNAL[1] and value:
                    return True
                continue
            if wire == 2:
                length, start = _varint(part, at)
                at = start + length
            elif wire in (1, 5):
                at += 8 if wire == 1 else 4
            else:
                raise ValueError("no field of this kind is in the format")
            if at > len(part):
                raise ValueError("cut off")
            if kind == "tensor" and field == EXTERNAL[0]:
                return True
            if wire == 2 and field in parts:
                todo.append((parts[field], part[start:at], depth + 1))
    return False


def _varint(part: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = part[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("no number of the format is so long")


# --- the map ----------------------------------------------------------------------------------------------


class OnnxMap:
    """A map of single records to vectors of length one, held by an ONNX file.

    Parameters
    ----------
    files : MapFiles
        The model, and the tokenizer of a map of texts.
    settings : MapSettings
        What is done beside running the model.

    Attributes
    ----------
    digest : str
        Sum of the files and the settings: maps with one digest do the same.
    width : int
        Numbers of a vector.
    """

    def __init__(self, files: MapFiles, settings: MapSettings) -> None:
        if not files.model.is_file():
            raise InvalidInputError(f"{files.model}: there is no such file")
        if settings.kind == "text" and files.tokenizer is None:
            raise InvalidInputError(f"{files.model}: a map of texts needs a tokenizer: give tokenizer.json")
        self.files, self.settings = files, settings
        self._lock = threading.Lock()
        self._ready: _Ready | None = None
        self._ready = self._loaded()
        self.digest, self.width = self._ready.digest, self._ready.width

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_lock", "_ready")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock, self._ready = threading.Lock(), None

    def vectors(self, records: Sequence[Any] | AnyArray) -> tuple[Floats, Mask]:
        """Map records, each by itself.

        Parameters
        ----------
        records : sequence
            Texts, or rows of numbers.

        Returns
        -------
        vectors : ndarray of shape (n_records, width)
            Vectors of length one; zeros where nothing is left of a record, or where the model gives no finite
            numbers.
        readable : ndarray of bool of shape (n_records,)
            Which records the model did not fail on.
        """
        ready = self._again()
        return self._spread(ready, len(records), lambda place: ready.vector(records[place]))

    def images(self, paths: Sequence[Path | None]) -> tuple[Floats, Mask]:
        """Map image files, each by itself.

        Parameters
        ----------
        paths : sequence of Path or None
            The files; None where there is none.

        Returns
        -------
        vectors : ndarray of shape (n_images, width)
            Vectors of length one, zeros for what cannot be read.
        readable : ndarray of bool of shape (n_images,)
            Which files are images that can be read.
        """
        ready = self._again()

        def mapped(place: int) -> Floats | None:
            path = paths[place]
            pixels = None if path is None else _pixels_or_none(ready, path)
            return None if pixels is None else ready.vector(pixels)

        return self._spread(ready, len(paths), mapped)

    @staticmethod
    def _spread(ready: _Ready, count: int, mapped: Callable[[int], Floats | None]) -> tuple[Floats, Mask]:
        """The vectors of so many records, over several threads, and which of them there are."""
        found: list[Floats | None] = [None] * count

        def encode(start: int) -> None:
            for place in range(start, min(start + BLOCK, count)):
                found[place] = mapped(place)

        run_parallel(encode, range(0, count, BLOCK))
        readable = np.array([vector is not None for vector in found], dtype=np.bool_)
        width = ready.width or next((len(vector) for vector in found if vector is not None), 0)
        nothing = np.zeros(width)
        rows = [nothing if vector is None else vector for vector in found]
        return np.array(rows).reshape(count, width), readable

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
        ready = self._again()
        wanted = ready.row_length()
        if wanted not in (None, n_features):
            raise InvalidInputError(
                f"X has {n_features} features, but {self.files.model} takes rows of {wanted}"
            )
        found = ready.vector(np.zeros(n_features))
        if found is None:
            raise InvalidInputError(f"{self.files.model}: the model cannot be run on a row of {n_features}")
        return len(found)

    def _again(self) -> _Ready:
        with self._lock:
            if self._ready is None:  # after a copy to another process
                self._ready = self._loaded()
                if self._ready.digest != self.digest:
                    raise InvalidInputError(f"{self.files.model}: the file is no longer what it was")
            return self._ready

    def _loaded(self) -> _Ready:
        model = _content(self.files.model, LARGEST_MODEL)
        tokens = None if self.files.tokenizer is None else _content(self.files.tokenizer, LARGEST_TOKENIZER)
        return _Ready(
            str(self.files.model), model, tokens if self.settings.kind == "text" else None, self.settings
        )


def kind_of_model(path: str | os.PathLike[str]) -> str:
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
    inputs = _session(str(path), _content(Path(path), LARGEST_MODEL)).get_inputs()
    if any(each.name == TEXT_INPUTS[0] for each in inputs):
        return "text"
    return "image" if len(inputs) == 1 and len(inputs[0].shape) == 4 else "rows"


def _session(where: str, content: bytes) -> Any:
    runtime: Any = require("onnxruntime", "onnx")
    try:
        external = has_external_data(content)
    except (ValueError, IndexError):
        raise InvalidInputError(f"{where}: not an ONNX file, or damaged") from None
    if external:
        raise InvalidInputError(
            f"{where}: its weights are in another file, which no digest would cover: save it as one file"
        )
    options = runtime.SessionOptions()
    # One thread for each record, always in the same order: the last digits do not depend on the machine's
    # load. Records are spread over threads by us.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    try:
        return runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception:  # the classes of its errors are its own; its texts may be of many lines
        raise InvalidInputError(f"{where}: not an ONNX file that onnxruntime can load") from None


class _Ready:
    """A map that is loaded: session, tokenizer, and what they expect."""

    def __init__(self, where: str, model: bytes, tokens: bytes | None, settings: MapSettings) -> None:
        self.where, self.settings = where, settings
        self.session = _session(where, model)
        self.digest = _digest(model, tokens, settings)
        self.inputs = {each.name: each for each in self.session.get_inputs()}
        outputs = [each.name for each in self.session.get_outputs()]
        if settings.output and settings.output not in outputs:
            raise InvalidInputError(f"{where}: the model has no output {settings.output!r}")
        self.output = settings.output or outputs[0]
        for each in self.inputs.values():
            if each.type not in TYPES:
                raise InvalidInputError(f"{where}: an input of the model is of a type that is not supported")
        self.tokenizer: Any = None
        if settings.kind == "text":
            self.tokenizer = self._tokenizer(tokens or b"")
            missing = [name for name in self.inputs if name not in TEXT_INPUTS]
            if missing or TEXT_INPUTS[0] not in self.inputs:
                raise InvalidInputError(
                    f"{where}: a model of texts takes input_ids, attention_mask and token_type_ids, no others"
                )
        elif len(self.inputs) != 1:
            raise InvalidInputError(f"{where}: a model of {settings.kind} must have one input")
        else:
            self.only = next(iter(self.inputs.values()))
        if settings.kind == "image":
            self._image_input()
        self.width = self._width()

    def _tokenizer(self, content: bytes) -> Any:
        tokenizers: Any = require("tokenizers", "text")
        try:
            found = tokenizers.Tokenizer.from_str(content.decode("utf-8"))
            found.no_padding()
            found.enable_truncation(self.settings.max_tokens)
        except Exception:  # its errors have no class of their own
            raise InvalidInputError(f"{self.where}: the tokenizer is no tokenizer.json, or damaged") from None
        return found

    def _image_input(self) -> None:
        """Which dimension holds the channels, and the height and width that images are brought to."""
        shape, settings = self.only.shape, self.settings
        if len(shape) != 4 or (shape[1] not in (1, 3) and shape[3] not in (1, 3)):
            raise InvalidInputError(f"{self.where}: the input is no image of one or three channels")
        self.channels_first = shape[1] in (1, 3)
        self.channels = int(shape[1] if self.channels_first else shape[3])
        fixed = shape[2:4] if self.channels_first else shape[1:3]
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
        if len(settings.mean) > self.channels or len(settings.std) > self.channels:
            raise InvalidInputError(f"{self.where}: mean and std must be one number: there is one channel")
        self.size = (int(sizes[0]), int(sizes[1]))

    def _width(self) -> int:
        """Numbers of a vector, from one record made up here; a model that cannot map it is refused."""
        kind = self.settings.kind
        trial: Any = "a"
        if kind == "image":
            trial = np.zeros((*self.size, self.channels), np.float32)
        elif kind == "rows":
            trial = np.zeros(self.row_length() or 1)
        try:
            found = len(self._run(trial))
        except OnefoldError:
            raise
        except Exception:
            if kind == "rows" and self.row_length() is None:
                return 0  # known once the length of a row is
            raise InvalidInputError(
                f"{self.where}: the model cannot be run on a single {self._one}"
            ) from None
        if not 1 <= found <= WIDEST:
            raise InvalidInputError(f"{self.where}: its vectors must have from 1 to {WIDEST} numbers")
        return found

    @property
    def _one(self) -> str:
        return "row" if self.settings.kind == "rows" else self.settings.kind

    def row_length(self) -> int | None:
        """Numbers of a row that the model takes, None for any."""
        own = self.only.shape[1:]
        return math.prod(own) if all(isinstance(size, int) and size > 0 for size in own) else None

    def vector(self, record: Any) -> Floats | None:
        """Map one record to a vector of length one, or to zeros; None if the model fails on it."""
        try:
            found = self._run(record)
        except OnefoldError:
            raise
        except Exception:  # what onnxruntime raises may repeat what it was given
            return None
        largest = np.abs(found).max(initial=0.0)
        if not 0.0 < largest < math.inf:  # NaN is neither
            return np.zeros(len(found))
        found = found / largest
        return np.asarray(found / np.sqrt(found @ found))

    def _run(self, record: Any) -> Floats:
        mask: Floats | None = None
        if self.settings.kind == "text":
            told = self.tokenizer.encode(str(record)[:LONGEST_TEXT])
            if not told.ids:
                return np.zeros(getattr(self, "width", 1))
            mask = np.array(told.attention_mask, dtype=np.float64)
            parts = dict(zip(TEXT_INPUTS, (told.ids, told.attention_mask, told.type_ids), strict=True))
            feed = {
                name: np.array([parts[name]], dtype=TYPES[each.type]) for name, each in self.inputs.items()
            }
        elif self.settings.kind == "image":
            feed = {self.only.name: self._image(record)}
        else:
            shape = [size if isinstance(size, int) and size > 0 else -1 for size in self.only.shape[1:]]
            row = np.asarray(record, dtype=TYPES[self.only.type])
            feed = {self.only.name: row.reshape(1, *shape)}
        return self._pooled(np.asarray(self.session.run([self.output], feed)[0], dtype=np.float64), mask)

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
            return np.asarray(found.mean(axis=(1, 2) if self.channels_first else (0, 1)))
        raise InvalidInputError(
            f"{self.where}: its output {self.output!r} is neither a vector for a record nor one for each part"
        )

    def _image(self, pixels: Array) -> AnyArray:
        scaled = (pixels / 255.0 - np.array(self.settings.mean)) / np.array(self.settings.std)
        if self.channels_first:
            scaled = scaled.transpose(2, 0, 1)
        return np.asarray(scaled[None], dtype=TYPES[self.only.type])

    def pixels(self, path: Path) -> Array:
        """Read an image of bounded size, in the channels, height and width of the model, from 0 to 255."""
        pillow: Any = require("PIL.Image", "onnx")
        if path.stat().st_size > LARGEST_IMAGE_FILE:
            raise ValueError("the file is too large")
        with path.open("rb") as file, pillow.open(file, formats=IMAGE_FORMATS) as image:
            if math.prod(image.size) > MOST_PIXELS:
                raise ValueError("the image is too large")
            shown = image.convert("L" if self.channels == 1 else "RGB")
            shown = shown.resize(self.size[::-1], pillow.Resampling.BILINEAR)
            return np.asarray(shown, dtype=np.float32).reshape(*self.size, self.channels)


def _digest(model: bytes, tokens: bytes | None, settings: MapSettings) -> str:
    """Sum of what decides which vector a record gets."""
    told = {
        "version": 1,
        "model": hashlib.sha256(model).hexdigest(),
        "tokenizer": None if tokens is None else hashlib.sha256(tokens).hexdigest(),
        "settings": asdict(settings),
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# --- images -----------------------------------------------------------------------------------------------


def _pixels_or_none(ready: _Ready, path: Path) -> Array | None:
    """An image, or None for a file that is none or too large: why is not told, cells are private."""
    try:
        return ready.pixels(path)
    except MissingDependencyError:
        raise
    except Exception:  # each format has errors of its own
        return None


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
