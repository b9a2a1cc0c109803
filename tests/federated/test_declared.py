"""What sites agree on before they release moments: declared numbers decide, and the data never does."""

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError
from onefold.fabrication import MomentClassifier
from onefold.federated import MomentFederation, release_moments
from onefold.federated.declared import declared_moments, public_centre
from onefold.federated.moments import moments_in
from onefold.privacy import PrivateMoments
from onefold.tables import Field, Schema

SICK = Field("sick", "boolean", "label", levels=(False, True))
FIELDS = [
    Field("age", low=0, high=100, fill=30),
    Field("ward", "string", levels=("a", "b"), missing="indicator"),
    Field("pulse", low=40, high=200, missing="indicator"),
    SICK,
]


def test_centre_is_the_declared_fill_the_middle_and_every_category_alike() -> None:
    middle = public_centre(Schema(FIELDS))
    half = 0.5 / np.sqrt(2.0)
    np.testing.assert_allclose(middle, [0.3, half, half, 0.0, 0.5, 0.0])


def test_schema_decides_everything_and_few_columns_are_seen_from_the_origin() -> None:
    schema = Schema(FIELDS, rows_about=100_000)
    agreed = declared_moments(1.0, schema=schema)
    assert agreed.second_moments == "pooled"
    assert agreed.radius == schema.row_norm
    np.testing.assert_array_equal(agreed.centre, public_centre(schema) / schema.row_norm)
    assert declared_moments(1.0, schema=Schema([FIELDS[0], SICK])).centre is None


def test_rows_of_numbers_take_range_or_length_and_classes() -> None:
    numbers = {"classes": [0, 1], "n_features": 4}
    ranged = declared_moments(1.0, limits=(0.0, 2.0), **numbers)
    assert ranged.radius == 4.0
    np.testing.assert_array_equal(ranged.centre, np.full(4, 0.25))
    about_zero = declared_moments(1.0, limits=(-5.0, 5.0), **numbers).fit(np.eye(4)[[0, 1] * 9], [0, 1] * 9)
    np.testing.assert_allclose(about_zero.embed(np.eye(4) / 9), np.eye(4), atol=1e-6)  # of length one
    assert declared_moments(1.0, limits=(0.0, 1.0), classes=[0, 1], n_features=2).centre is None
    assert declared_moments(1.0, radius=3.0, **numbers).radius == 3.0
    assert declared_moments(1.0, radius=3.0, rows_about=10**6, **numbers).second_moments == "class"
    assert declared_moments(1.0, radius=3.0, rows_about=5, **numbers).second_moments == "pooled"


@pytest.mark.parametrize(
    "wrong",
    [
        {"classes": [0, 1], "n_features": 4},
        {"classes": [0, 1], "n_features": 4, "limits": (0, 1), "radius": 1.0},
        {"classes": [0, 1], "n_features": 4, "limits": (1, 0)},
        {"n_features": 4, "radius": 1.0},
        {"schema": Schema(FIELDS[:3])},
    ],
)
def test_incomplete_declarations_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidInputError):
        declared_moments(1.0, **wrong)  # type: ignore[arg-type]


def test_promise_before_the_release_is_that_of_the_release() -> None:
    rng = np.random.default_rng(0)
    X, y, person = rng.random((60, 5)), np.arange(60) % 2, np.arange(60) // 3
    alone = declared_moments(1.0, classes=[0, 1], n_features=5, limits=(0.0, 1.0))
    assert alone.promise(5) == moments_in(release_moments(X, y, alone)).guarantee_
    of_persons = alone.set_params(rows_per_person=2)
    assert (
        of_persons.promise(5, of_persons=True)
        == moments_in(release_moments(X, y, of_persons, person=person)).guarantee_
    )


def test_public_centre_is_better_than_the_origin_under_noise() -> None:
    """Rows in the middle of their range: from the origin they all point the same way."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    rows, queries = (
        0.5 + 0.1 * (2 * y[:, None] - 1) * (np.arange(12) < 4) + 0.1 * rng.standard_normal((300, 12))
        for _ in range(2)
    )
    centred = declared_moments(1.0, classes=[0, 1], n_features=12, limits=(0.0, 1.0))

    def accuracy(centre: object, seed: int) -> float:
        moments = PrivateMoments(**centred.get_params() | {"centre": centre, "random_state": seed})
        return MomentClassifier.from_moments(moments.fit(rows, y)).score(queries, y)

    found = {
        name: np.mean([accuracy(c, seed) for seed in range(8)])
        for name, c in (("middle", centred.centre), ("origin", None))
    }
    assert found["middle"] > found["origin"] + 0.05


def test_moments_without_a_guarantee_are_not_opened() -> None:
    X, y = np.random.default_rng(0).random((40, 4)), np.arange(40) % 2
    plain = release_moments(X, y, PrivateMoments(None, classes=[0, 1], centre=None))
    seeded = release_moments(X, y, PrivateMoments(1.0, classes=[0, 1], centre=None, random_state=0))
    for packed in (plain, seeded):
        with pytest.raises(InvalidInputError, match="no guarantee that holds"):
            moments_in(packed)
    with pytest.raises(InvalidInputError):
        moments_in(b"nothing")


def test_answers_are_the_classifier_of_the_sum_in_labels_of_messages() -> None:
    schema = Schema(FIELDS)
    table = {
        "age": [20, 30, 70, 80] * 20,
        "ward": ["a", "a", "b", None] * 20,
        "pulse": [60] * 80,
        "sick": [False, False, True, True] * 20,
    }
    federation = MomentFederation()
    for name in ("north", "south"):
        agreed = declared_moments(20.0, schema=schema)
        federation.add(name, release_moments(table, None, agreed, schema=schema))
    classes, measures = federation.answers(schema.transform(table))
    assert classes.tolist() == ["false", "true"]
    assert np.all(measures >= 0)
    right = classes[measures.argmin(axis=1)] == np.where(table["sick"], "true", "false")
    assert np.mean(right) > 0.9
