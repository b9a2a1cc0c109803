"""Targets of the battery: everything that onefold releases with a claim, on the path that users take."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from attacks.row_targets import (
    CLOSE,
    ROWS_PER_PERSON,
    bounded_target,
    composed_target,
    fisher_factors,
    mechanism_for,
    needed_levels,
    reachable,
    row_target,
)
from attacks.targets import CLASS_PAIRS, count_target, moment_target, privacy_targets
from onefold import KAHM, AutoencoderClassifier
from onefold.audit import AttackTarget
from onefold.fabrication import (
    Fabricator,
    MomentClassifier,
    MomentFabricator,
    PrivateClassifier,
    TableSynthesizer,
)
from onefold.federated import LocalModel, release_moments
from onefold.privacy import FisherGaussian, PrivateMoments, domain_of
from onefold.release import release_bounded, release_iid, release_table
from onefold.tables import Field, Schema
from onefold.transfer import PrivateSource

Makers = dict[str, Sequence[Callable[[], AttackTarget]]]


def all_targets(epsilon: float = 1.0) -> Makers:
    """Name everything that onefold releases with a claim; each target is made when it is asked for."""
    return {
        **privacy_targets(epsilon),
        **_of_rows(epsilon),
        **_of_moments(epsilon),
        **_of_tables(epsilon),
        **_of_releases(epsilon),
    }


def _of_rows(epsilon: float) -> Makers:
    """Artefacts made of noisy rows."""
    paths = {
        "Fabricator": ("OptimalNoise", _fabricated),
        "PrivateClassifier": ("Laplace", _classified),
        "PrivateSource": ("AnalyticGaussian", _source),
        "LocalModel": ("Laplace", _site),
    }
    made: dict[str, list[Callable[[], Any]]] = {
        name: [
            partial(composed_target, name, kind, unit, epsilon, path)
            for unit in ("entry", "record", "person")
        ]
        for name, (kind, path) in paths.items()
    }
    smoothed = partial(_site, fabricate=True)
    made["LocalModel"].append(
        partial(composed_target, "LocalModel, fabricated", "Laplace", "record", epsilon, smoothed)
    )
    return {**made}


def _fabricated(noise: Any, X: Any, y: Any, person: Any) -> dict[str, Any]:
    maker = Fabricator(noise, 1, branch_size=2, n_jobs=1)  # small, so that classes are divided
    made = maker.fabricate(X, y, person=person)
    steps = tuple(maker.n_steps_)
    return {
        "content": (made.tobytes(), steps),
        "type": made.dtype,
        "shape": made.shape,
        "guarantee": str(maker.guarantee_),
    }


def _classified(noise: Any, X: Any, y: Any, person: Any) -> dict[str, Any]:
    model = PrivateClassifier(AutoencoderClassifier(KAHM(1)), noise, stopping=1, n_components=1)
    model.fit(X, y, person)
    answers = model.distances(np.array([[0.5, 0.0, 12.0], [0.1, 0.9, 13.0]]))
    return {
        "content": answers.tobytes(),
        "type": answers.dtype,
        "classes": model.classes_.tolist(),
        "guarantee": str(model.guarantee_),
    }


def _source(noise: Any, X: Any, y: Any, person: Any) -> dict[str, Any]:
    source = PrivateSource.fit(X, y, noise, estimator=KAHM(1), person=person)
    content = source.to_bytes()
    return {"content": content, "bytes": len(content), "guarantee": str(source.guarantee_)}


def _site(noise: Any, X: Any, y: Any, person: Any, fabricate: bool = False) -> dict[str, Any]:
    """What a site answers with, sends, and keeps in its file."""
    model = LocalModel(AutoencoderClassifier(KAHM(1)), noise, fabricate=fabricate)
    model.fit(X, y, person=person)
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        content = model.to_parcel("site").content, (Path(folder) / "model").read_bytes()
    return {
        "content": content,
        "bytes": [len(part) for part in content],
        "guarantee": str(model.guarantee_),
    }


def _of_moments(epsilon: float) -> Makers:
    """Artefacts made of private moments."""
    return {
        name: [
            partial(moment_target, name, unit, "add-remove", epsilon, fit, replay=replay)
            for unit in ("record", "person")
        ]
        for name, fit, replay in (
            ("MomentClassifier", _fit_classifier, _replay_classifier),
            ("MomentFabricator", _fit_fabricator, _replay_fabricator),
            ("MomentFederation", _fit_site_moments, None),
        )
    }


def _fit_classifier(X: Any, y: Any, person: Any, **options: Any) -> Any:
    # Two classes are one release here, so each needs its own second moment; pooled ones are attacked alone.
    model = MomentClassifier(centre=None, second_moments="class", **options)
    return model.fit(X, y, person).moments_


def _fit_fabricator(X: Any, y: Any, person: Any, **options: Any) -> Any:
    return MomentFabricator(centre=None, **options).fit(X, y, person).moments_


def _fit_site_moments(X: Any, y: Any, person: Any, **options: Any) -> Any:
    moments = PrivateMoments(centre=None, **options)
    return PrivateMoments.from_bytes(release_moments(X, y, moments, person=person))


def _small_table() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.uniform(-0.5, 0.5, (40, 2)), np.arange(40) % 2


def _replay_classifier() -> tuple[Any, Any]:
    """The classifier of rows, and the one of its moments alone."""
    X, y = _small_table()
    model = MomentClassifier(classes=[0, 1]).fit(X, y)
    again = MomentClassifier.from_moments(model.moments_)
    return model.decision_function(X).tobytes(), again.decision_function(X).tobytes()


def _replay_fabricator() -> tuple[Any, Any]:
    model = MomentFabricator(classes=[0, 1]).fit(*_small_table())
    again = MomentFabricator.from_moments(model.moments_)
    return tuple(made.sample(20, random_state=0)[0].tobytes() for made in (model, again))  # type: ignore[return-value]


def _of_tables(epsilon: float) -> Makers:
    """Counts of tables, and synthetic tables made of them."""
    name = "TableSynthesizer"
    return {
        name: [
            partial(count_target, name, "record", "add-remove", epsilon, _counted, replay=_replay_table),
            partial(count_target, name, "person", "add-remove", epsilon, _counted),
            partial(count_target, f"{name}, replace", "record", "replace", epsilon, _counted),
            partial(_length_target, epsilon),
        ]
    }


def _counted(rows: Any, person: Any, **options: Any) -> Any:
    schema = Schema(
        [
            Field("age", low=0, high=100, bins=(50,)),
            Field("ward", "string", levels=("a", "b")),
            Field("outcome", "integer", role="label", levels=tuple(range(2 * CLASS_PAIRS))),
        ]
    )
    columns = {
        field.name: list(cells) for field, cells in zip(schema.fields, zip(*rows, strict=True), strict=True)
    }
    made = TableSynthesizer(schema, **options).fit(columns, person=person).counts_
    tables = [*made.layout.singles(made.vector), *made.layout.doubles(made.vector)]
    return made.guarantee, np.hstack([table.reshape(2 * CLASS_PAIRS, -1) for table in tables])


def _synthesized(side: int, epsilon: float) -> Any:
    """A synthesizer of few rows, of which one is odd and in one of the neighbours only."""
    schema = Schema(
        [Field("grade", "integer", low=0, high=4, bins=(2,)), Field("ward", "string", levels=("a", "b"))]
    )
    table = {"grade": [1, 2, *[1e9] * side], "ward": ["a", "b", *["a very rare ward"] * side]}
    return TableSynthesizer(schema, epsilon).fit(table)


def _length_target(epsilon: float) -> Any:
    """The number of synthetic rows, and everything about them but their cells."""

    def draw(side: int, n: int) -> Any:
        made = (_synthesized(side, epsilon).sample() for _ in range(n))
        return np.array([[len(table["grade"])] for table in made], dtype=np.float64)

    def schema(side: int) -> dict[str, Any]:
        made = _synthesized(side, epsilon)
        table = made.sample(10)
        return {
            "types": {name: column.dtype for name, column in table.items()},
            "bytes": len(made.counts_.to_bytes()),
            "guarantee": str(made.guarantee_),
        }

    epsilon, delta = _synthesized(0, epsilon).guarantee_.record
    return AttackTarget("TableSynthesizer, rows", "record", epsilon, delta, draw, schema=schema)


def _replay_table() -> tuple[Any, Any]:
    """The table of a synthesizer, and the one of its counts alone."""
    made = _synthesized(1, 1.0)
    again = TableSynthesizer.from_counts(made.schema, made.counts_)
    tables = (one.sample(50, random_state=0) for one in (made, again))
    return tuple(tuple(column.tobytes() for column in table.values()) for table in tables)  # type: ignore[return-value]


def _of_releases(epsilon: float) -> Makers:
    """Rows that are published with the documents' optimal noise."""
    kinds = {"release_iid": "FisherGaussian", "release_bounded": "BoundedFisherNoise"}
    return {
        **{
            name: [partial(_released, kind, unit, epsilon) for unit in ("entry", "record", "person")]
            for name, kind in kinds.items()
        },
        "release_table": [partial(_table_target, unit, epsilon) for unit in ("record", "person")],
    }


def _persons(unit: str, n_rows: int) -> dict[str, Any]:
    """Say that each person has as many rows, one after the other, as may count."""
    if unit != "person":
        return {}
    return {"person": np.arange(n_rows) // ROWS_PER_PERSON, "rows_per_person": ROWS_PER_PERSON}


def _released(kind: str, unit: str, epsilon: float) -> Any:
    noise = mechanism_for(kind, unit, epsilon)
    claim = getattr(noise.guarantee(3, rows_per_person=ROWS_PER_PERSON), unit)
    given = {"delta": noise.delta, "sensitivity": noise.domain}

    def bounded(rows: Any) -> Any:
        persons = _persons(unit, len(rows))
        return release_bounded(rows, noise.lam, noise.bounds, Pi=noise.Pi, **given, **persons).X

    def free(rows: Any) -> Any:
        return release_iid(rows, noise.lam, noise.Pi, **given, **_persons(unit, len(rows))).X

    if kind == "BoundedFisherNoise":
        return bounded_target("release_bounded", unit, noise, claim, bounded)
    return row_target(
        "release_iid",
        unit,
        claim,
        free,
        needed_levels(kind, unit, claim[0], noise.delta),
        "gaussian",
        reachable=lambda numbers, side: reachable(numbers, CLOSE[side], fisher_factors(noise), "gaussian"),
    )


def _table_target(unit: str, epsilon: float) -> Any:
    """A table of a whole number, a number with a fraction and a word, all of them declared."""
    towns = ("a", "ab", "a long word")
    records = ((18, -5, "a"), (500, 5.5, "a long word"))  # one of them outside the declared ranges
    n_rows = ROWS_PER_PERSON if unit == "person" else 1

    def columns(side: int, n: int) -> dict[str, Any]:
        values = [*[(30, 0, "ab")] * n_rows, *[records[side]] * n_rows * n]
        age, size, town = zip(*values, strict=True)
        return {"age": np.array(age), "size": np.array(size), "town": np.array(town)}

    numbers = [Field("age", low=18, high=98), Field("size", low=-1, high=1)]
    known = Schema([*numbers, Field("town", "string", levels=towns)])
    noise = FisherGaussian.from_epsilon(epsilon, known.width, sensitivity=domain_of(known))
    allowed = {"age": (-1e6, 1e6), "size": (-1e6, 1e6)}

    def released(side: int, n: int) -> Any:
        table = columns(side, n)
        return release_table(table, known, noise.lam, allowed=allowed, **_persons(unit, len(table["age"])))

    def draw(side: int, n: int) -> Any:
        made = released(side, n).columns
        codes = np.searchsorted(np.sort(towns), made["town"])
        numbers = np.column_stack([made["age"], made["size"], codes]).astype(np.float64)
        return numbers[n_rows:].reshape(n, -1)

    def schema(side: int) -> dict[str, Any]:
        made = released(side, 1)
        types = {name: column.dtype for name, column in made.columns.items()}
        return {"types": types, "guarantee": str(made.guarantee), "words": made.in_words()}

    claim = getattr(released(0, 1).guarantee, unit)
    return AttackTarget("release_table", unit, claim[0], claim[1], draw, schema=schema)
