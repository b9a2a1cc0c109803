"""Columns of texts or image files that an encoder turns into numbers: what is declared, and where it is."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

from onefold._base.arrays import Floats, Mask
from onefold._base.validation import Entry, Instance, OneOf, Whole, check_parameters
from onefold.encoders import onnx
from onefold.exceptions import InvalidInputError

__all__ = ["CellEncoder"]

CELL_KINDS = ("text", "image")
DIGEST = re.compile("[0-9a-f]{64}")
# Keys of the file format, and the settings that they say.
SETTINGS = {name: name for name in ("kind", "pooling", "output", "size", "mean", "std")} | {
    "maxTokens": "max_tokens"
}
PLACES = ("path", "tokenizer")
KEYS = (*PLACES, "digest", "width", *SETTINGS)


class _Loaded:
    """The map once it is needed; copies of a declaration share it, and a stored one starts without it."""

    def __init__(self, loaded: onnx.OnnxMap | None = None) -> None:
        self.lock, self.map = threading.Lock(), loaded

    def __reduce__(self) -> Any:
        return _Loaded, ()


@dataclass(frozen=True)
class CellEncoder:
    """The encoder of a column of texts or of paths of image files.

    The declaration (digest, width and settings) is part of a schema, and so of what sites agree on. Where the
    files are is not: every site and every user has them somewhere else. Nothing is ever downloaded.

    Parameters
    ----------
    digest : str
        Sum of the model, the tokenizer and the settings.
    width : int
        Numbers that a cell becomes.
    settings : MapSettings
        What is done beside running the model.
    files : MapFiles or None, default=None
        Where the model and the tokenizer are; None if that is not known yet.
    folder : Path or None, default=None
        Where the paths of images begin; None for the current folder.
    loaded : object, default=nothing loaded
        The map once it is needed; copies share it.

    See Also
    --------
    onefold.encoders.OnnxEncoder : The same map outside of tables.
    Field : Takes it as ``encoder``.

    Examples
    --------
    >>> from onefold.tables import CellEncoder
    >>> CellEncoder.of_entry({"kind": "text", "digest": "0" * 64, "width": 384}).width
    384
    """

    digest: str
    width: int
    settings: onnx.MapSettings
    files: onnx.MapFiles | None = field(default=None, compare=False)
    folder: Path | None = field(default=None, compare=False)
    loaded: _Loaded = field(default_factory=_Loaded, compare=False, repr=False)

    constraints: ClassVar[dict[str, Entry]] = {
        "kind": OneOf(CELL_KINDS),
        "digest": Instance(
            lambda digest: isinstance(digest, str) and DIGEST.fullmatch(digest) is not None,
            "64 hexadecimal digits",
        ),
        "width": Whole(1, onnx.WIDEST),
    }

    def __post_init__(self) -> None:
        check_parameters(self)

    def __deepcopy__(self, memo: Any) -> CellEncoder:
        return self  # nothing of it changes, and loading the map takes long

    @property
    def kind(self) -> str:
        """What the cells hold: "text", or "image" for paths of image files."""
        return self.settings.kind

    @classmethod
    def of_map(cls, found: onnx.OnnxMap) -> CellEncoder:
        """Return the encoder of a column that uses a map which is loaded already.

        Parameters
        ----------
        found : OnnxMap
            The map.

        Returns
        -------
        CellEncoder
            The declaration, with its files.
        """
        return cls(found.digest, found.width, found.settings, found.files, loaded=_Loaded(found))

    @classmethod
    def from_path(
        cls, path: str | os.PathLike[str], tokenizer: str | os.PathLike[str] | None = None, **settings: Any
    ) -> CellEncoder:
        """Declare the encoder in a file: digest and width are found out, from the file alone.

        Parameters
        ----------
        path : path
            An ONNX file, or a folder as sentence encoders come in.
        tokenizer : path or None, default=None
            The tokenizer of a model of texts; None looks for ``tokenizer.json`` near the model.
        **settings : object
            Settings of :class:`onefold.encoders.OnnxEncoder` other than those that follow from the files.

        Returns
        -------
        CellEncoder
            The declaration, with its files.
        """
        files = onnx.files_at(path, tokenizer)
        told: dict[str, Any] = {}
        if Path(path).is_dir():
            told = vars(onnx.sentence_settings(path, settings.get("max_tokens")))
        elif "kind" not in settings:
            told = {"kind": onnx.kind_of_model(files.model)}
        chosen = onnx.MapSettings(**{**told, **settings})
        if chosen.kind not in CELL_KINDS:
            raise InvalidInputError(f"{path}: takes neither texts nor images, so it encodes no column")
        return cls.of_map(onnx.OnnxMap(files, chosen))

    def located(
        self, path: str | os.PathLike[str], tokenizer: str | os.PathLike[str] | None = None
    ) -> CellEncoder:
        """Return the same encoder with its files; other files than those declared are refused.

        Parameters
        ----------
        path : path
            The ONNX file, or the folder it is in.
        tokenizer : path or None, default=None
            The tokenizer; None looks for ``tokenizer.json`` near the model.

        Returns
        -------
        CellEncoder
            The same declaration.
        """
        found = replace(self, files=onnx.files_at(path, tokenizer), loaded=_Loaded())
        found._map()
        return found

    def vectors(self, texts: Sequence[str]) -> tuple[Floats, Mask]:
        """Encode cells, each by itself.

        Parameters
        ----------
        texts : sequence of str
            The texts, or the paths of image files.

        Returns
        -------
        vectors : ndarray of shape (n_cells, width)
            Vectors of length one, or zeros where nothing is left of a cell.
        readable : ndarray of bool of shape (n_cells,)
            Which cells could be read: images that are inside the folder and sound, and everything that the
            model does not fail on.
        """
        found = self._map()
        if self.kind == "text":
            return found.vectors(texts)
        top = Path() if self.folder is None else self.folder
        return found.vectors([onnx.image_below(top, text) for text in texts])

    def _map(self) -> onnx.OnnxMap:
        with self.loaded.lock:
            if self.loaded.map is None:
                if self.files is None:
                    raise InvalidInputError(
                        f"the encoder with the digest {self.digest[:16]}... is needed and not part of the "
                        "model: say where its file is (--encoder COLUMN=PATH, or Schema.with_encoders)"
                    )
                found = onnx.OnnxMap(self.files, self.settings)
                if (found.digest, found.width) != (self.digest, self.width):
                    raise InvalidInputError(
                        f"{self.files.model}: not the encoder that was declared: its digest (of model, "
                        f"tokenizer and settings) is {found.digest[:16]}..., and not {self.digest[:16]}..."
                    )
                self.loaded.map = found
            return self.loaded.map

    # --- the file format ----------------------------------------------------------------------------------

    @classmethod
    def of_entry(cls, entry: Any, folder: Path | None = None) -> CellEncoder:
        """Make an encoder of the key ``onefold:encoder`` of a field.

        Parameters
        ----------
        entry : dict
            JSON values.
        folder : Path or None, default=None
            Folder of the schema file, where its paths begin; None for a schema from elsewhere, whose paths
            are not followed.

        Returns
        -------
        CellEncoder
            The declaration. Without a digest, a width or a kind they are taken from the file.
        """
        if not isinstance(entry, Mapping):
            raise InvalidInputError("onefold:encoder must be an object")
        for key in entry:
            if key not in KEYS:
                raise InvalidInputError(f"onefold:encoder has no key {key!r}: {', '.join(KEYS)}")
        if not all(isinstance(entry.get(key, ""), str) for key in PLACES):
            raise InvalidInputError("path and tokenizer of onefold:encoder must be texts")
        settings: dict[str, Any] = {
            SETTINGS[key]: tuple(value) if isinstance(value, list) else value
            for key, value in entry.items()
            if key in SETTINGS
        }
        path, tokenizer = (folder / entry[key] if folder and key in entry else None for key in PLACES)
        if {"kind", "digest", "width"} <= entry.keys():
            files = None if path is None else onnx.files_at(path, tokenizer)
            return cls(entry["digest"], entry["width"], onnx.MapSettings(**settings), files)
        if path is None:
            raise InvalidInputError("onefold:encoder needs a path, or kind, digest and width")
        encoder = cls.from_path(path, tokenizer, **settings)
        for key in ("digest", "width"):
            if entry.get(key, getattr(encoder, key)) != getattr(encoder, key):
                raise InvalidInputError(f"{path}: not the encoder that was declared: its {key} differs")
        return encoder

    def entry(self, folder: Path | None = None) -> dict[str, Any]:
        """Return the key ``onefold:encoder`` of a field.

        Parameters
        ----------
        folder : Path or None, default=None
            Folder of the schema file, for which the paths are written; None leaves them out.

        Returns
        -------
        dict
            JSON values. Without paths, what sites must agree on.
        """
        entry: dict[str, Any] = {"kind": self.kind, "digest": self.digest, "width": self.width}
        for key, name in SETTINGS.items():
            value = getattr(self.settings, name)
            if key != "kind" and value != getattr(onnx.MapSettings, name):
                entry[key] = list(value) if isinstance(value, tuple) else value
        if folder is not None and self.files is not None:
            places = zip(PLACES, (self.files.model, self.files.tokenizer), strict=True)
            entry |= {key: _place_below(place, folder) for key, place in places if place is not None}
        return entry


def _place_below(place: Path, folder: Path) -> str:
    """A path as a schema file says it: relative where it is below the folder of the file."""
    whole, top = place.resolve(), folder.resolve()
    return whole.relative_to(top).as_posix() if whole.is_relative_to(top) else str(whole)
