"""Small valid files and messages of every format, each with the function that reads and uses it.

Tests and the fuzzer change them (see ``hostile.py``) and expect of every reader: a thing that can be used, or
an error of ``onefold.exceptions``, without more memory than the bytes present can explain.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import onefold
from onefold import io
from onefold._base.foreign import parse_json
from onefold.fabrication import MomentClassifier, MomentRegressor, TableCounts, TableSynthesizer
from onefold.federated import LocalModel
from onefold.federated import messages as plain
from onefold.federated.access.guard import QueryGuard
from onefold.federated.access.log import MembershipLog
from onefold.federated.forgotten import ForgottenPersons
from onefold.federated.joined import Agreement, JoinedSums
from onefold.federated.joined_server import JoinedFederation
from onefold.privacy import Event, Guarantee, Laplace, Ledger, PrivateMoments
from onefold.tables import Field, Schema, read_table
from onefold.transfer import PrivateSource, TransferClassifier
from reference.foreign_sums import keys_and_sums, small_store

__all__ = ["Format", "formats"]

rng = np.random.default_rng(5)
X = np.vstack([rng.normal(0.3, 0.1, (12, 3)), rng.normal(0.7, 0.1, (12, 3))])
Y = np.repeat([0, 1], 12)
FIELDS = (
    Field("age", "integer", low=0, high=100, bins=(18, 65)),
    Field("sex", "string", levels=("f", "m")),
    Field("died", "boolean", role="label"),
)
NOON = 1_600_000_000.0  # samples are the same each time, except those with noise or keys
ROWS = {"age": rng.integers(0, 101, 24), "sex": np.where(Y, "f", "m"), "died": Y.astype(bool)}


@dataclass(frozen=True)
class Format:
    """A valid sample, and what reads a file of it and uses what it found."""

    name: str
    sample: bytes
    read: Callable[[Path], Any]
    suffix: str = ""


def formats() -> list[Format]:
    """Every format, smallest things first in each."""
    around = keys_and_sums(Schema(FIELDS), plain.Query("q1", X[:4]))
    sums = [Format(*sample) for sample in around]
    return [*_models(), *_others(), *_messages(), *sums, *_texts(), *_tables()]


# --- models and what is kept beside them ------------------------------------------------------------------


def use(model: Any) -> None:
    """Ask a model about one row: what does not fit must have been refused when it was read."""
    row = np.full((1, int(getattr(model, "n_features_in_", 1))), 0.5)
    if hasattr(model, "classes_") and hasattr(model, "distances"):
        assert model.distances(row).shape == (1, len(model.classes_))
    if getattr(model, "schema", None) is None and hasattr(model, "predict"):
        assert len(model.predict(row)) == 1
    if hasattr(model, "guarantee_"):
        str(model.guarantee_)


def _load(path: Path) -> None:
    use(io.load(path))


def _models() -> list[Format]:
    estimators = {
        "kahm": onefold.KAHM(2),
        "wide": onefold.WideKAHM(2, 2, branch_size=8, random_state=0),
        "classifier": onefold.AutoencoderClassifier(),
        "folding": onefold.FoldingClassifier(batch_size=6, scale=2.0),
        "membership": onefold.DeepMembershipAutoencoder(2, 2),
        "fuzzy": onefold.DeepFuzzyAutoencoder(2, 2),
        "mapping": onefold.MembershipMapping(),
        "fuzzy model": onefold.DeepFuzzyModel(),
    }
    found = [
        Format(f"model {name}", io.to_bytes(model.fit(X, Y)), _load) for name, model in estimators.items()
    ]
    found += [
        Format(f"model {name} compact", io.to_bytes(estimators[name], compact=True), _load)
        for name in ("kahm", "folding", "membership")
    ]
    table = onefold.AutoencoderClassifier(schema=Schema(FIELDS)).fit(ROWS)
    same, sent = (
        LocalModel(
            onefold.FoldingClassifier(batch_size=6),
            Laplace(4.0, sensitivity=1.0),
            fabricate=False,
            random_state=seed,
        ).fit(X, Y)
        for seed in (0, None)  # noise that can be made again is not private, and is not sent
    )
    return [
        *found,
        Format("model table", io.to_bytes(table), _load),
        Format("local model", _saved(same), _use_local),
        Format("local model joined", _saved(_joined()), _use_local),
        Format("parcel", sent.to_parcel("north").to_bytes(), _read_parcel),
    ]


def _joined() -> LocalModel:
    """A site's model with the offset that the server of a joined federation published."""
    agreement = Agreement(np.array([0, 1]), radius=4.0, n_directions=3)
    models = [
        LocalModel(onefold.FoldingClassifier(batch_size=6, measure="euclidean")).fit(X, Y) for _ in "ab"
    ]
    server = JoinedFederation(agreement)
    for number, model in enumerate(models):
        server.add(number, model.joined_sums(agreement))
    models[0].join(server.publish())
    return models[0]


def _use_local(path: Path) -> None:
    model = LocalModel.load(path)
    use(model.estimator_)
    assert model.answer(plain.Query("q", np.full((1, model.estimator_.n_features_in_), 0.5)), "north")


def _read_parcel(path: Path) -> None:
    message = plain.from_bytes(path.read_bytes())
    if isinstance(message, plain.ModelParcel):
        use(LocalModel.from_parcel(message).estimator_)


def _saved(thing: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        thing.save(Path(folder) / "file")
        return (Path(folder) / "file").read_bytes()


def _others() -> list[Format]:
    moments = PrivateMoments(8.0, classes=[0, 1], radius=3.0, random_state=0).fit(X, Y)
    whitened = PrivateMoments(8.0, classes=[0, 1], whitening="private", random_state=0).fit(X, Y)
    source = PrivateSource.from_moments(moments)
    ledger = Ledger(limit_epsilon=9.0)
    ledger.spend(Event("survey", "record", 1.5))
    synthesizer = TableSynthesizer(Schema(FIELDS), 4.0, random_state=0)
    counts = synthesizer.count_tables(ROWS)
    sums = JoinedSums.of(Agreement(np.array([0, 1]), radius=4.0, n_directions=3), X, Y, [])
    target = np.where(np.arange(24) % 3, -1, Y)
    return [
        Format(
            "moments", moments.to_bytes(), lambda path: PrivateMoments.from_bytes(path.read_bytes()).means_
        ),
        Format(
            "whitened moments",
            whitened.to_bytes(),
            lambda path: PrivateMoments.from_bytes(path.read_bytes()).embed(X),
        ),
        Format("joined sums", sums.to_bytes(), lambda path: JoinedSums.from_bytes(path.read_bytes()).vector),
        Format("counts", counts.to_bytes(), lambda path: TableCounts.from_bytes(path.read_bytes()).vector),
        Format("synthesizer", _saved(TableSynthesizer.from_counts(Schema(FIELDS), counts)), _draw),
        Format("moment classifier", _saved(MomentClassifier.from_moments(moments)), _load),
        Format("moment regressor", _saved(MomentRegressor(None, lift=None).fit(X, X[:, 0])), _load),
        Format("source", _saved(source), lambda path: io.load(path).classes_),
        Format("transfer", TransferClassifier(source).fit(X, target).to_bytes(), _load),
        Format("ledger", _saved(ledger), lambda path: str(Ledger.load(path))),
    ]


def _draw(path: Path) -> None:
    TableSynthesizer.load(path).sample(3)


# --- messages ---------------------------------------------------------------------------------------------


def _messages() -> list[Format]:
    digest = "a" * 64
    promise = Laplace(1.0, sensitivity=1.0).guarantee(3).to_dict()
    sent: dict[str, plain.Message] = {
        "query": plain.Query("q1", X[:4]),
        "answers": plain.Answers("q1", "north", (0, 1), "euclidean", None, X[:4, :2]),
        "profile": plain.Profile("north", ("a", "b"), "euclidean", None, 3, promise, digest),
        "failure": plain.Failure("q1", "north", plain.FailureCode.INTERNAL),
        "refusal": plain.Refusal("north", "other-features"),
        "query key": plain.QueryKey(digest, (0, 1), 8, 2.0, 1.0, 0.0, b"key"),
        "sealed answers": plain.SealedAnswers("q1", "north", b"content"),
        "sealed result": plain.SealedResult("q1", ("north", "south"), b"content"),
        "plain sums": plain.PlainSums("north", digest, 2.0, 3, b"content"),
        "private sums": plain.PrivateSums("north", b"content"),
        "public scores": plain.PublicScores(b"content"),
        "site facts": plain.SiteFacts("north", "0.2", "1.41", 300, "epsilon 1 of 3"),
        "sum parcel": plain.SumParcel("q1", "north", "contribute", b"content"),
    }
    found = [
        Format(f"message {name}", message.to_bytes(), lambda path: plain.from_bytes(path.read_bytes()))
        for name, message in sent.items()
    ]
    return found + _encrypted()


def _encrypted() -> list[Format]:
    """Messages of encrypted queries; a result is read by whoever holds the secret key."""
    if importlib.util.find_spec("seal") is None:
        return []
    from onefold.federated.fhe import Client, Querier, Server

    querier = Querier(n_clients=2, n_classes=2)
    key = querier.public_key()
    sites = [Client(key, name) for name in ("north", "south")]
    answers = [site.encrypt(np.array([[1, 2]]), "q1").to_bytes() for site in sites]
    server = Server(querier.evaluation_keys())
    result = server.aggregate(answers).to_bytes()
    return [
        Format(
            "encrypted answers", answers[0], lambda path: server.aggregate([path.read_bytes(), answers[1]])
        ),
        Format("encrypted result", result, lambda path: querier.decrypt(path.read_bytes())),
    ]


# --- texts ------------------------------------------------------------------------------------------------


def _texts() -> list[Format]:
    promise = Laplace(1.0, sensitivity=1.0).guarantee(3).to_dict()
    return [
        Format("schema", json.dumps(Schema(FIELDS).to_dict()).encode(), _use_schema, ".json"),
        Format("guarantee", json.dumps(promise).encode(), _use_guarantee, ".json"),
        Format("store of a server", _store(), _use_store, ".db"),
    ]


def _use_schema(path: Path) -> None:
    schema = Schema.load(path)
    _ = schema.digest, schema.width


def _use_guarantee(path: Path) -> None:
    str(Guarantee.from_dict(parse_json(path.read_bytes())))


def _store() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "server.db"
        log = MembershipLog(path, clock=lambda: NOON)
        log.append("join", "north", classes=[0, 1])
        log.append("leave", "north")
        QueryGuard(100, 100, path, clock=lambda: NOON).admit("me", 3)
        ForgottenPersons(path).add("anna")
        return small_store(path)


def _use_store(path: Path) -> None:
    log = MembershipLog(path)
    log.verify()
    log.members()
    QueryGuard(100, 100, path).spent("me")
    ForgottenPersons(path).kept(["anna"])


# --- tables -----------------------------------------------------------------------------------------------


def _tables() -> list[Format]:
    import io as streams

    stored, packed = streams.BytesIO(), streams.BytesIO()
    np.savez(stored, X=X, y=Y, feature_names=np.array(["a", "b", "c"]))
    np.savez_compressed(packed, **ROWS)
    lines = "\n".join(
        ["age;sex", *(f"{age};{sex}" for age, sex in zip(ROWS["age"], ROWS["sex"], strict=True))]
    )
    return [
        Format("npz", stored.getvalue(), read_table, ".npz"),
        Format("npz compressed", packed.getvalue(), read_table, ".npz"),
        Format("csv", lines.encode(), read_table, ".csv"),
        *_parquet(),
    ]


def _parquet() -> list[Format]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        return []
    import io as streams

    out = streams.BytesIO()
    parquet.write_table(pa.table({name: list(values) for name, values in ROWS.items()}), out)
    return [Format("parquet", out.getvalue(), read_table, ".parquet")]
