"""Several sources: each counts by how near it is, a hostile one hardly at all, and each keeps its promise."""

import numpy as np
import pytest

from onefold import io
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy import OptimalNoise, PrivateMoments
from onefold.transfer import PrivateSource, TransferClassifier
from onefold.transfer.alignment import Prior, combined
from reference.domains import blobs, hide
from reference.forging import forged
from tiers import thinned

CLASSES = range(6)
ONE = {"target", "least squares", "shrunk", "refined", "mapping"}


def domain(rng, n_rows, move=0.0):
    X, y = blobs(rng, n_rows, 6, 12, 0.55)
    return X + move, y


def source_of(X, y, centre="private"):
    """Sources without a centre see rows in the same way; those with a private one do not."""
    moments = PrivateMoments(8.0, classes=CLASSES, radius=4.0, centre=centre)
    return PrivateSource.fit(X, y, moments, random_state=0)


def test_combined_sources_are_the_literal_weighted_mean() -> None:
    """One direction, one labelled row of each of two classes at 0 and 10, sources off by 1 and by 3."""
    near = Prior(np.array([[1.0], [11.0]]), np.eye(1), np.zeros(1))
    far = Prior(np.array([[3.0], [13.0]]), 4.0 * np.eye(1), np.zeros(1))
    coordinates, codes = np.array([[0.0], [10.0], [5.0]]), np.array([0, 1, -1])
    found = combined([near, far], coordinates, codes)
    # Distances in units of the mean covariance, 2.5, minus the variance of a mean of one row.
    t = np.maximum([1.0 / 2.5 - 1.0, 9.0 / 2.5 - 1.0], 0.02)
    weights = (1.0 / t) / (1.0 / t).sum()
    np.testing.assert_allclose(found.means, weights[0] * near.means + weights[1] * far.means, rtol=1e-12)
    np.testing.assert_allclose(found.within, [[weights[0] + 4.0 * weights[1]]], rtol=1e-12)
    assert combined([near], coordinates, codes) is near


def test_sources_that_err_differently_help_more_than_one_of_them(rng) -> None:
    """Class means of each source are off in a direction of its own: their average is nearer."""
    several, single = [], []
    for _ in range(3):
        means = 0.35 * rng.normal(size=(6, 12))

        def rows(n_rows, error, means=means):
            y = np.arange(n_rows) % 6
            off = error * rng.normal(size=means.shape)
            return (means + off)[y] + 0.55 * rng.normal(size=(n_rows, 12)), y

        sources = [source_of(*rows(300, 0.3), centre=None) for _ in range(4)]
        (X, y), (queries, truth) = rows(240, 0.0), rows(1200, 0.0)
        seen = hide(y, 1)
        model = TransferClassifier(sources=sources).fit(X, seen)
        assert set(model.weights_) == {*ONE, *(f"source {number}" for number in (1, 2, 3, 4))}
        several.append(model.score(queries, truth))
        found = [TransferClassifier(each).fit(X, seen) for each in sources[:2]]
        single += [one.score(queries, truth) for one in found]
    assert np.mean(several) > np.mean(single) + 0.03


@pytest.mark.parametrize(
    ("kind", "labels_and_loss", "centre"),
    thinned(
        ["random labels", "noise", "turned labels"],
        [(1, 0.2), (3, 0.03), (10, 0.02)],
        [None, "private"],
    ),
)
def test_hostile_second_source_hardly_lowers_accuracy_from_three_labels_on(
    kind, labels_and_loss, centre, rng
) -> None:
    per_class, loss = labels_and_loss
    good = source_of(*domain(rng, 3000), centre=centre)
    X, y = domain(rng, 3000)
    labels = {"random labels": rng.permutation(y), "noise": y, "turned labels": (y + 1) % 6}[kind]
    bad = source_of(rng.normal(size=X.shape) if kind == "noise" else X, labels, centre=centre)
    X, y = domain(rng, 240)
    queries, truth = domain(rng, 1500)
    seen = hide(y, per_class)
    with_both = TransferClassifier(sources=[good, bad]).fit(X, seen)
    with_good = TransferClassifier(good).fit(X, seen)
    assert with_both.score(queries, truth) > with_good.score(queries, truth) - loss
    assert with_both.weights_["source 2"] < with_both.weights_["source 1"]


@pytest.mark.parametrize("centre", [None, "private"])
def test_order_of_sources_does_not_matter(centre, rng) -> None:
    sources = [source_of(*domain(rng, 400, move), centre=centre) for move in (0.0, 0.2, 0.4)]
    X, y = domain(rng, 240)
    models = [TransferClassifier(sources=given).fit(X, hide(y, 3)) for given in (sources, sources[::-1])]
    # The weights are found by a search that ends at a tolerance.
    np.testing.assert_allclose(models[0].predict_proba(X), models[1].predict_proba(X), atol=0.01)
    assert models[0].weights_["source 1"] == pytest.approx(models[1].weights_["source 3"], abs=0.01)
    assert models[0].source_gain_ == pytest.approx(models[1].source_gain_, abs=0.06)


def test_one_source_in_a_sequence_is_that_source(rng) -> None:
    source = source_of(*domain(rng, 400))
    X, y = domain(rng, 120)
    seen = hide(y, 3)
    several = TransferClassifier(sources=[source]).fit(X, seen)
    one = TransferClassifier(source).fit(X, seen)
    np.testing.assert_allclose(several.distances(X), one.distances(X))
    assert several.weights_.keys() == one.weights_.keys()


def test_every_source_keeps_its_own_promise(rng) -> None:
    X, y = domain(rng, 400)
    noisy = PrivateSource.fit(X, y, OptimalNoise(3.0, sensitivity=1.0))
    moments = PrivateSource.fit(X, y, PrivateMoments(2.0, classes=CLASSES, radius=4.0))
    model = TransferClassifier(sources=[noisy, moments]).fit(X, hide(y, 3))
    first, second = model.guarantee_
    assert (first.unit, first.entry[0]) == ("entry", 3.0)
    assert (second.unit, second.record[0]) == ("record", 2.0)
    assert all("only records of this source are meant" in str(promise) for promise in model.guarantee_)
    # They see rows in different ways, so each has experts of its own.
    assert {"source 1: shrunk", "source 2: shrunk", "source 1", "source 2"} <= set(model.weights_)


@pytest.mark.parametrize("to_source", [None, "procrustes"])
@pytest.mark.parametrize("centre", [None, "private"])
def test_loaded_classifier_of_several_sources_is_the_same(centre, to_source, rng, tmp_path) -> None:
    sources = [source_of(*domain(rng, 400), centre=centre) for _ in range(2)]
    X, y = domain(rng, 120)
    model = TransferClassifier(sources=sources, to_source=to_source).fit(X, hide(y, 3))
    io.save(model, tmp_path / "model")
    loaded = io.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.distances(X), model.distances(X))
    assert (loaded.weights_, loaded.guarantee_) == (model.weights_, model.guarantee_)
    assert len(loaded.sources) == 2
    assert loaded.source is None


@pytest.mark.parametrize(
    "change",
    [
        lambda model: model["fitted"].update(sources=[]),
        lambda model: model["fitted"].update(sources=None),
        lambda model: model["fitted"].update(sources="2"),
        lambda model: model["fitted"].update(source=model["fitted"]["sources"][0]),
        lambda model: [each.update(way=7) for each in model["fitted"]["_strategy"]["experts"]],
        lambda model: [each.update(kind="target") for each in model["fitted"]["_strategy"]["experts"]],
        lambda model: model["parameters"].update(strategy="documented"),
    ],
)
def test_files_whose_sources_do_not_fit_are_refused(change, rng) -> None:
    sources = [source_of(*domain(rng, 200)) for _ in range(2)]
    X, y = domain(rng, 60)
    packed = TransferClassifier(sources=sources).fit(X, hide(y, 2)).to_bytes()
    forgery = forged(packed, lambda header, arrays: change(header["fields"]["model"]))
    with pytest.raises(FileFormatError) as caught:
        TransferClassifier.from_bytes(forgery)
    assert "\n" not in str(caught.value)


def test_sources_that_do_not_go_together_are_refused(rng) -> None:
    X, y = domain(rng, 200)
    source = source_of(X, y)
    few = PrivateSource.fit(X, y % 2, PrivateMoments(4.0, classes=[0, 1], radius=4.0))
    wide = source_of(np.hstack([X, X]), y)
    for given, message in (
        ({"source": source, "sources": [source]}, "give source or sources, not both"),
        ({"sources": []}, "a sequence of PrivateSource"),
        ({"sources": [source, X]}, "a sequence of PrivateSource"),
        ({"sources": [source, few]}, "source 2 knows other classes .0, 1. than source 1"),
        ({"sources": [source, wide]}, "12 features and source 2 24: give to_source"),
        ({"sources": [source, source], "strategy": "documented"}, '"documented" knows one source'),
    ):
        with pytest.raises(InvalidInputError, match=message):
            TransferClassifier(**given).fit(X, hide(y, 3))
