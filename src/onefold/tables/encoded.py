"""Columns of texts or image files that an encoder turns into numbers: what is declared, and where it is."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from onefold._base.arrays import Floats, Mask
from onefold.encoders.onnx import (
    WIDEST,
    MapFiles,
    MapSettings,
    OnnxMap,
    files_at,
    image_below,
    kind_of_model,
    sentence_settings,
)
from onefold.exceptions import InvalidInputError

__all__ = ["CellEncoder"]

CELL_KINDS = ("text", "image")
DIGEST = re.compile("[0-9a-f]{64}")
# Keys of the file format, and the settings that they say.
SETTINGS = {
    "kind": "kind",
    "pooling": "pooling",
    "output": "output",
    "maxTokens": "max_tokens",
    "size": "size",
    "mean": "mean",
    "std": "std",
}
KEYS = ("path", "tokenizer", "digest", "width", *SETTINGS)


class _Loaded:
    """The map once it is needed; copies of a declaration share it."""

    def __init__(self, found: OnnxMap | None = None) -> None:
        self.lock, self.map = threading.Lock(), found


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
    >>> CellEncoder.from_dict({"kind": "text", "digest": "0" * 64, "width": 384}).width
    384
    """

    digest: str
    width: int
    settings: MapSettings
    files: MapFiles | None = field(default=None, compare=False)
    folder: Path | None = field(default=None, compare=False)
    loaded: _Loaded = field(default_factory=_Loaded, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.settings.kind not in CELL_KINDS:
            raise InvalidInputError(f"the encoder of a column must be one of {' or '.join(CELL_KINDS)}")
        if not isinstance(self.digest, str) or DIGEST.fullmatch(self.digest) is None:
            raise InvalidInputError("the digest of an encoder must be 64 hexadecimal digits")
        whole = isinstance(self.width, int) and not isinstance(self.width, bool)
        if not whole or not 1 <= self.width <= WIDEST:
            raise InvalidInputError(f"the width of an encoder must be a whole number from 1 to {WIDEST}")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "loaded"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, loaded=_Loaded())

    def __deepcopy__(self, memo: Any) -> CellEncoder:
        return self  # nothing of it changes, and loading the map takes long

    @property
    def kind(self) -> str:
        """What the cells hold: "text", or "image" for paths of image files."""
        return self.settings.kind

    @classmethod
    def of_map(cls, found: OnnxMap) -> CellEncoder:
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
        files = files_at(path, tokenizer)
        told: dict[str, Any] = {}
        if Path(path).is_dir():
            told = vars(sentence_settings(path, settings.get("max_tokens")))
        elif "kind" not in settings:
            told = {"kind": kind_of_model(files.model)}
        chosen = MapSettings(**{**told, **settings})
        if chosen.kind not in CELL_KINDS:
            raise InvalidInputError(f"{path}: takes neither texts nor images, so it encodes no column")
        return cls.of_map(OnnxMap(files, chosen))

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
        found = replace(self, files=files_at(path, tokenizer), loaded=_Loaded())
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
        return found.images([image_below(top, text) for text in texts])

    def _map(self) -> OnnxMap:
        with self.loaded.lock:
            if self.loaded.map is None:
                if self.files is None:
                    raise InvalidInputError(
                        f"the encoder with the digest {self.digest[:16]}... is needed and not part of the "
                        "model: say where its file is (--encoder COLUMN=PATH, or Schema.with_encoders)"
                    )
                found = OnnxMap(self.files, self.settings)
                if (found.digest, found.width) != (self.digest, self.width):
                    raise InvalidInputError(
                        f"{self.files.model}: not the encoder that was declared: its digest (of model, "
                        f"tokenizer and settings) is {found.digest[:16]}..., and not {self.digest[:16]}..."
                    )
                self.loaded.map = found
            return self.loaded.map

    # --- the file format ----------------------------------------------------------------------------------

    @classmethod
    def from_dict(cls, given: Any, folder: Path | None = None) -> CellEncoder:
        """Make an encoder from the key ``onefold:encoder`` of a field.

        Parameters
        ----------
        given : dict
            JSON values.
        folder : Path or None, default=None
            Folder of the schema file, where its paths begin; None for a schema from elsewhere, whose paths
            are not followed.

        Returns
        -------
        CellEncoder
            The declaration. Without a digest, a width or a kind they are taken from the file.
        """
        if not isinstance(given, Mapping):
            raise InvalidInputError("onefold:encoder must be an object")
        unknown = [key for key in given if key not in KEYS]
        if unknown:
            raise InvalidInputError(f"onefold:encoder has no key {unknown[0]!r}: {', '.join(KEYS)}")
        if not all(isinstance(given.get(key, ""), str) for key in ("path", "tokenizer")):
            raise InvalidInputError("path and tokenizer of onefold:encoder must be texts")
        settings: dict[str, Any] = {
            name: tuple(given[key]) if isinstance(given[key], list) else given[key]
            for key, name in SETTINGS.items()
            if key in given
        }
        places: list[Any] = [None, None]
        if folder is not None:
            places = [folder / given[key] if key in given else None for key in ("path", "tokenizer")]
        if all(key in given for key in ("kind", "digest", "width")):
            files = None if places[0] is None else files_at(places[0], places[1])
            return cls(given["digest"], given["width"], MapSettings(**settings), files)
        if places[0] is None:
            raise InvalidInputError("onefold:encoder needs a path, or kind, digest and width")
        found = cls.from_path(places[0], places[1], **settings)
        for key in ("digest", "width"):
            if key in given and given[key] != getattr(found, key):
                raise InvalidInputError(f"{places[0]}: not the encoder that was declared: its {key} differs")
        return found

    def to_dict(self, folder: Path | None = None) -> dict[str, Any]:
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
        found: dict[str, Any] = {"kind": self.kind, "digest": self.digest, "width": self.width}
        usual = {each.name: each.default for each in fields(MapSettings)}
        for key, name in SETTINGS.items():
            value = getattr(self.settings, name)
            if key != "kind" and value != usual[name]:
                found[key] = list(value) if isinstance(value, tuple) else value
        if folder is None or self.files is None:
            return found
        places = {"path": self.files.model, "tokenizer": self.files.tokenizer}
        return found | {key: _written(place, folder) for key, place in places.items() if place is not None}


def _written(place: Path, folder: Path) -> str:
    """A path as a schema file says it: relative where it is below the folder of the file."""
    whole, top = place.resolve(), folder.resolve()
    return whole.relative_to(top).as_posix() if whole.is_relative_to(top) else str(whole)
