"""Tiny models that the sites of a simulation have, and answers recomputed from them alone.

Everything here is fitted once and shared by all seeds. What a federation answers is computed a second time,
from these objects, which were never on a disk: by the library's own rule, and by a minimum written out here.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from onefold import KAHM, AutoencoderClassifier
from onefold.federated import (
    GlobalClassifier,
    JoinedFederation,
    LocalModel,
    MomentFederation,
    Offset,
    release_moments,
)
from onefold.federated.contract import default_classifier
from onefold.federated.declared import declared_moments
from onefold.federated.joined_server import declared_agreement
from onefold.federated.messages import Answers, Query
from onefold.tables import Field, Schema

SCHEMA = Schema(
    (
        Field("a", low=0, high=1),
        Field("b", low=0, high=1),
        Field("y", "string", "label", levels=("n", "p")),
    )
)
OTHER = Schema((Field("c", low=0, high=1), Field("y", "string", "label", levels=("n", "p"))))
EPSILON = 4.0
KINDS = ("rows", "rows", "rows", "model", "sums", "sums", "moments")
N_ROWS, N_FITS, N_QUERIES = 8, 6, 3


@dataclass(frozen=True, eq=False)
class Fitted:
    """What a site has: a model with its rows, or private moments; ``fits`` if the other sites' fit it."""

    digest: str
    model: LocalModel | None = None
    moments: bytes = b""
    fits: bool = True

    def __repr__(self) -> str:
        return self.digest[:6]


def table(number: int, schema: Schema = SCHEMA) -> dict[str, list[Any]]:
    rng = np.random.default_rng(number)
    y = np.arange(N_ROWS) % 2
    columns = {name: (0.3 * rng.random(N_ROWS) + 0.5 * y).round(2).tolist() for name in ("a", "b", "c")}
    fields = {field.name for field in schema.fields}
    return {**{n: v for n, v in columns.items() if n in fields}, "y": np.where(y, "p", "n").tolist()}


@cache
def asked(kind: str, number: int) -> Any:
    """Rows of a query: an array, or a table where the sites have a schema."""
    rng = np.random.default_rng(1000 + number)
    rows = rng.random((number + 1, 2)).round(2)
    return rows if kind in ("rows", "model") else {"a": rows[:, 0].tolist(), "b": rows[:, 1].tolist()}


def encoded(kind: str, number: int) -> np.ndarray:
    rows = asked(kind, number)
    return rows if isinstance(rows, np.ndarray) else SCHEMA.transform(rows)


@cache
def fit(kind: str, number: int) -> Fitted:
    """One of a few sites' models of a kind; the last one does not fit the others."""
    odd = number == N_FITS
    if kind == "moments":
        schema = OTHER if odd else SCHEMA
        released = release_moments(
            table(number, schema), None, declared_moments(EPSILON, schema=schema), schema=schema
        )
        return Fitted(hashlib.sha256(released).hexdigest(), moments=released, fits=not odd)
    return kept(_model(kind, number), not odd)


def _model(kind: str, number: int) -> LocalModel:
    odd = number == N_FITS
    if kind == "sums":
        schema = OTHER if odd else SCHEMA
        classifier = default_classifier(schema).set_params(measure="euclidean")
        return LocalModel(classifier, schema=schema, keep_rows=True).fit(table(number, schema))
    rng = np.random.default_rng(number)
    X = rng.random((N_ROWS, 3 if odd else 2)).round(2)
    return LocalModel(AutoencoderClassifier(KAHM(1, scale=1.0)), keep_rows=True).fit(X, np.arange(N_ROWS) % 2)


@cache
def forgetting(kind: str, number: int, row: int) -> Fitted:
    """The same model after forgetting a row."""
    model = deepcopy(_model(kind, number))
    model.forget([row])
    return kept(model)


def kept(model: LocalModel, fits: bool = True) -> Fitted:
    return Fitted(_digest(model), model, fits=fits)


def _digest(model: LocalModel) -> str:
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model", with_rows=False)
        return hashlib.sha256((Path(folder) / "model").read_bytes()).hexdigest()


# --- the second computation ---------------------------------------------------------------------------------

_OFFSETS: dict[tuple[str, ...], Any] = {}
_ANSWERS: dict[Any, Answers] = {}
_SUMS: dict[str, bytes] = {}
_OPENED: dict[bytes, Any] = {}


def sums_of(each: Fitted) -> bytes:
    """The plain sums of a model's rows."""
    if each.digest not in _SUMS:
        assert each.model is not None
        _SUMS[each.digest] = each.model.joined_sums(declared_agreement(each.model.schema_)).to_bytes()
    return _SUMS[each.digest]


def opened(content: bytes) -> Offset:
    if content not in _OPENED:
        _OPENED[content] = Offset.from_bytes(content)
    return _OPENED[content]


def offset(members: Mapping[str, Fitted]) -> Any:
    """The scores that a server publishes for these members."""
    key = tuple(sorted(each.digest for each in members.values()))
    if key not in _OFFSETS:
        agreed = declared_agreement(SCHEMA)
        server = JoinedFederation(agreed)
        for name, each in members.items():
            server.add(name, sums_of(each))
        _OFFSETS[key] = server.publish()
    return _OFFSETS[key]


def answers(site: str, each: Fitted, rows: np.ndarray, scores: Any = None) -> Answers:
    """What a site says about rows, computed from the model in memory."""
    key = (site, each.digest, rows.tobytes(), id(scores))  # scores are kept, so the id is theirs
    if key not in _ANSWERS:
        model = each.model
        if scores is not None and model is not None:
            model = LocalModel._of(model.estimator_, None).join(scores)
        assert model is not None
        _ANSWERS[key] = model.answer(Query("q", rows), site)
    return _ANSWERS[key]


def combined(said: Mapping[str, Answers], rows: np.ndarray) -> np.ndarray:
    """Measures of a federation of these sites, in two ways that must agree."""
    said = {name: replace(each, query_id="q") for name, each in said.items()}
    found = GlobalClassifier().combine(said, tuple(said), query=Query("q", rows)).measures
    classes = sorted({label for each in said.values() for label in each.classes})
    literal = np.full((len(rows), len(classes)), np.inf)
    for each in said.values():
        for column, label in enumerate(each.classes):
            place = classes.index(label)
            literal[:, place] = np.minimum(literal[:, place], each.values[:, column])
    assert np.array_equal(found, literal), "the rule is not the minimum"
    return found


def of_moments(members: Mapping[str, Fitted], rows: np.ndarray) -> np.ndarray:
    """Measures from the sum of the members' private moments."""
    server = MomentFederation()
    for name in sorted(members):
        server.add(name, members[name].moments)
    return server.answers(rows)[1]


def prepare() -> None:
    """Fit everything before the first seed, so that no seed depends on those before it."""
    for kind in dict.fromkeys(KINDS):
        for number in range(N_FITS + 1):
            fit(kind, number)
        if kind != "moments":
            for number in range(2):
                forgetting(kind, number, 3)
