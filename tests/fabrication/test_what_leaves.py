"""Neighbouring tables: what leaves has the same names, types and lengths, whatever one record holds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.fabrication import Fabricator, MomentClassifier, MomentFabricator, PrivateClassifier
from onefold.privacy import AnalyticGaussian, Box, Laplace, RandomisedLabels

pd = pytest.importorskip("pandas")

N_ROWS = 40
CLASSES = ["no", "yes", "a much longer answer that nobody gave"]
TYPES = {"age": "int8", "income": "int64", "height": "float32"}
few = settings(max_examples=8, deadline=None)

# One record: extreme, fractional where all others are whole, of another type.
records = st.fixed_dictionaries(
    {
        "age": st.one_of(st.just(5), st.just(0.5), st.just(1e6), st.just(-3.25), st.just(200)),
        "income": st.one_of(st.just(7), st.just(2**40), st.just(0.125), st.floats(-1e9, 1e9)),
        "height": st.one_of(st.just(1.5), st.just(1e30), st.floats(-1e6, 1e6)),
        "name": st.one_of(st.just(3), st.just("somebody with a long name"), st.just(-1)),
        "label": st.sampled_from(CLASSES),
    }
)


def table(record: dict[str, Any] | None) -> tuple[Any, Any]:
    """A frame with types of its own for each column, and labels; the record takes the place of one."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.integers(0, 50, N_ROWS) for name in TYPES}).astype(TYPES)
    names, labels = list(range(N_ROWS)), ["no", "yes"] * (N_ROWS // 2)
    if record is not None:
        columns = {name: frame[name].tolist() for name in TYPES}
        for name in TYPES:
            columns[name][11] = record[name]
        # As a file would be read: a column gets the narrowest type that holds its values.
        frame = pd.DataFrame(columns)
        for name, kind in TYPES.items():
            fits = np.array_equal(frame[name].to_numpy(float), frame[name].astype("float64").round())
            small = frame[name].abs().max() < (100 if kind == "int8" else 1e12)
            if (kind.startswith("int") and fits and small) or kind == "float32":
                frame[name] = frame[name].astype(kind)
        names[11], labels[11] = record["name"], record["label"]
    frame.index = pd.Index(names, name="patient")
    return frame, pd.Series(labels, index=frame.index)


def outline(made: Any) -> tuple[Any, ...]:
    """All that a receiver sees of rows except the numbers in them."""
    if isinstance(made, np.ndarray):
        return ("array", made.shape, made.dtype, made.nbytes)
    kinds = [str(kind) for kind in made.dtypes]
    return (type(made), list(made.columns), made.columns.dtype, kinds, repr(made.index), made.attrs)


def maker() -> Fabricator:
    return Fabricator(
        Laplace(1.0, sensitivity=Box(0, 50)), 2, 1, label_mechanism=RandomisedLabels(1.0, CLASSES)
    )


@few
@given(records)
def test_fabricated_and_noisy_frames_look_alike_for_neighbouring_tables(record: dict[str, Any]) -> None:
    seen = []
    for frame, labels in (table(None), table(record)):
        one = maker()
        made = [
            one.fabricate(frame, labels),
            one.randomise(frame, labels),
            one.fabricate(frame.to_numpy(float), labels),
        ]
        told = json.dumps(one.guarantee_.to_dict())
        seen.append(([outline(part) for part in made], one.labels_.dtype, one.labels_.shape, told))
    assert seen[0] == seen[1]
    assert seen[0][1] == np.array(CLASSES).dtype
    assert outline(made[0])[3] == ["float64"] * 3


@few
@given(records)
def test_noisy_frame_of_a_mechanism_has_the_same_types_for_neighbouring_tables(
    record: dict[str, Any],
) -> None:
    noise = Laplace(1.0, sensitivity=Box(0, 50))
    made = [noise.randomise(table(one)[0][["age", "height"]]) for one in (None, record)]
    assert [str(kind) for kind in made[0].dtypes] == [str(kind) for kind in made[1].dtypes] == ["float64"] * 2


def test_frame_of_float32_alone_stays_float32() -> None:
    frame = table(None)[0].astype("float32")
    assert set(map(str, Fabricator(Laplace(1.0, sensitivity=Box(0, 50))).fabricate(frame).dtypes)) == {
        "float32"
    }


@few
@given(records)
def test_private_classifier_looks_alike_for_neighbouring_tables(record: dict[str, Any]) -> None:
    from sklearn.naive_bayes import GaussianNB

    labels = RandomisedLabels(1.0, CLASSES)
    seen = []
    for frame, y in (table(None), table(record)):
        model = PrivateClassifier(
            GaussianNB(), Laplace(1.0, sensitivity=Box(0, 50)), stopping=1, label_mechanism=labels
        )
        model.fit(frame, y)
        answer = model.predict(frame)
        seen.append((model.classes_.dtype, answer.dtype, model.classifier_.theta_.dtype, model.guarantee_))
        assert list(model.feature_names_in_) == list(TYPES)
    assert seen[0] == seen[1]


@few
@given(records)
def test_moments_of_declared_classes_have_the_same_bytes_for_neighbouring_tables(
    record: dict[str, Any],
) -> None:
    seen = []
    for frame, y in (table(None), table(record)):
        model = MomentFabricator(1.0, classes=CLASSES, radius=100.0).fit(frame, y)
        drawn, labels = model.sample(30)
        told = json.dumps(model.guarantee_.to_dict())
        seen.append(
            (model.classes_.dtype, len(model.moments_.to_bytes()), outline(drawn), labels.dtype, told)
        )
    assert seen[0] == seen[1]


def test_classes_that_are_found_keep_no_width_of_those_left_out() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((3000, 2)), np.array(["no", "yes"] * 1500)
    long = y.astype("<U40")
    long[11] = CLASSES[-1]
    for kind in (MomentClassifier, MomentFabricator):
        models = [kind(8.0, radius=2.0).fit(X, labels) for labels in (y, long)]
        assert [model.classes_.tolist() for model in models] == [["no", "yes"]] * 2
        assert models[0].classes_.dtype == models[1].classes_.dtype
        assert len(models[0].moments_.to_bytes()) == len(models[1].moments_.to_bytes())


def test_outline_sees_what_used_to_leak() -> None:
    """The comparison has power: types and index of the raw frames do differ."""
    record = {"age": 0.5, "income": 7, "height": 1.5, "name": "somebody", "label": "yes"}
    raw, other = table(None)[0], table(record)[0]
    assert outline(raw)[3] != outline(other)[3]
    assert outline(raw)[4] != outline(other)[4]


@pytest.mark.parametrize("unit", ["entry", "record", "person"])
def test_frame_of_persons_keeps_no_index(unit: str) -> None:
    frame, labels = table(None)
    noise = AnalyticGaussian(1.0, sensitivity=Box(0, 50), unit=unit, rows_per_person=2)
    people = np.arange(N_ROWS) // 4
    made = Fabricator(noise, 2).fabricate(frame, labels, person=people)
    assert made.index.equals(pd.RangeIndex(N_ROWS // 2))
    assert made.index.name is None
