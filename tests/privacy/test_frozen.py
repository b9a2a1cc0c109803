"""Nobody changes a noise or a domain after it was made: not by an attribute, an array, a copy or a file."""

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.preprocessing import FunctionTransformer

from onefold.privacy import (
    AnalyticGaussian,
    Ball,
    BoundedFisherNoise,
    Box,
    FisherGaussian,
    Gaussian,
    Laplace,
    OptimalNoise,
    RandomisedLabels,
)
from onefold.privacy.mechanisms.fisher import Weights

MADE = {
    "Laplace": lambda: Laplace(1.0, sensitivity=1.0),
    "Laplace per record": lambda: Laplace(1.0, sensitivity=Box(0, 1), unit="record"),
    "OptimalNoise": lambda: OptimalNoise(1.0, 1e-3, 1.0),
    "Gaussian": lambda: Gaussian(0.5, 1e-3, 1.0),
    "AnalyticGaussian": lambda: AnalyticGaussian(1.0, sensitivity=Box([0, 0], [1, 2])),
    "FisherGaussian": lambda: FisherGaussian(1.0, [1.0, 2.0], sensitivity=1.0),
    "dependent columns": lambda: FisherGaussian(
        1.0, [[2.0, 1.0], [1.0, 2.0]], sensitivity=1.0, sampler="float"
    ),
    "BoundedFisherNoise": lambda: BoundedFisherNoise(1.0, [(-5, 5), (-6, 6)], sensitivity=1.0),
    "RandomisedLabels": lambda: RandomisedLabels(1.0, ["no", "yes"]),
    "Box": lambda: Box([0.0, 0.0], [1.0, 2.0]),
    "Ball": lambda: Ball(1.0),
    "Weights": lambda: Weights([1.0, 2.0]),
}
each = pytest.mark.parametrize("made", MADE.values(), ids=MADE.keys())


def arrays_inside(thing: object) -> list[np.ndarray]:
    inside = vars(thing).values()
    found = [value for value in inside if isinstance(value, np.ndarray)]
    return found + [array for value in inside if hasattr(value, "_seal") for array in arrays_inside(value)]


@each
def test_no_attribute_can_be_set_deleted_or_added(made) -> None:
    thing = made()
    for name in [*vars(thing), "another", "sensitivity", "sampler", "inferred"]:
        with pytest.raises(AttributeError, match="cannot be changed: make a new one"):
            setattr(thing, name, 0.01)
        with pytest.raises(AttributeError, match="cannot be changed"):
            delattr(thing, name)
    with pytest.raises(AttributeError, match="cannot be changed"):
        thing.__setstate__({"epsilon": 0.01})


def test_a_second_initialisation_changes_nothing() -> None:
    noise = Laplace(1.0, sensitivity=1.0)
    with pytest.raises(AttributeError, match="cannot be changed"):
        noise.__init__(0.01, sensitivity=1.0)  # type: ignore[misc]
    assert noise.epsilon == 1.0


@each
def test_no_array_inside_can_be_written_to(made) -> None:
    for array in arrays_inside(made()):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_arrays_given_by_the_caller_are_copied() -> None:
    low, Pi, bounds, classes = np.zeros(2), np.ones(2), np.array([[-5.0, 5.0]] * 2), np.array(["a", "b"])
    box, noise = Box(low, 1.0), FisherGaussian(1.0, Pi, sensitivity=1.0)
    walls = BoundedFisherNoise(1.0, bounds, sensitivity=1.0)
    labels = RandomisedLabels(1.0, classes)
    before = noise.guarantee(2)
    low[:], Pi[:], bounds[:], classes[:] = -9.0, 100.0, 1.0, "c"  # they stay writable, and theirs
    assert box.low.tolist() == [0.0, 0.0]
    assert noise.guarantee(2) == before
    assert walls.bounds.tolist() == [[-5.0, 5.0]] * 2
    assert labels.classes.tolist() == ["a", "b"]


@each
def test_copies_are_the_object_itself_and_pickles_are_frozen(made) -> None:
    thing = made()
    assert copy.copy(thing) is thing
    assert copy.deepcopy(thing) is thing
    assert clone(thing, safe=False) is thing
    assert clone(FunctionTransformer(kw_args={"noise": thing})).kw_args["noise"] is thing
    twin = pickle.loads(pickle.dumps(thing))  # noqa: S301
    assert type(twin) is type(thing)
    assert repr(twin) == repr(thing) or isinstance(thing, Weights)
    with pytest.raises(AttributeError, match="cannot be changed"):
        twin.epsilon = 0.01
    for array in arrays_inside(twin):
        with pytest.raises(ValueError, match="WRITEABLE"):
            array.flags.writeable = True


def test_a_pickle_promises_the_same_for_any_number_of_features() -> None:
    noise = Laplace(1.0, sensitivity=Box(0, 1), unit="record")
    promise = noise.guarantee(7)
    twin = pickle.loads(pickle.dumps(noise))  # noqa: S301
    assert twin.guarantee(7) == promise
    assert noise.n_features is None  # the data of one table do not decide for the next
    assert noise.guarantee(9).record == promise.record


def test_guarantees_cannot_be_changed() -> None:
    promise = Laplace(1.0, sensitivity=1.0).guarantee(3)
    with pytest.raises(AttributeError):
        promise.record = (0.1, 0.0)  # type: ignore[misc]
    with pytest.raises(TypeError):
        promise.record[0] = 0.1  # type: ignore[index]
