"""The artefact of a source: what it promises, and what it is made of."""

import warnings

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from onefold import KAHM, WideMembershipAutoencoder
from onefold.encoders import GradientHistograms, RandomFeatures
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.fabrication import Fabricator
from onefold.privacy import Box, Laplace, OptimalNoise, PrivateMoments, RandomisedLabels
from onefold.privacy.contract import LEARNED_ENCODER
from onefold.privacy.guarantee import SEEDED
from onefold.privacy.persons import SAME_PERSON
from onefold.transfer import PrivateSource
from onefold.transfer.source import GIVEN_ROWS
from reference.domains import blobs
from reference.neighbours import RECORDS, in_containers, outline, replaced
from reference.sources import made, moments


@pytest.mark.parametrize("kind", ["noise", "moments", "none"])
def test_source_classifies_rows_of_its_own_kind(kind, rng) -> None:
    source, _, _ = made(kind, rng, n_rows=3000 if kind == "moments" else 300)
    X, y = blobs(rng, 300)
    assert np.mean(source.predict(X) == y) > 0.85


def test_source_has_the_guarantee_of_its_mechanism(rng) -> None:
    noise, recorded, private = (made(kind, rng)[0].guarantee_ for kind in ("noise", "record", "moments"))
    assert (noise.unit, noise.entry, noise.record[0]) == ("entry", (8.0, 1e-5), 48.0)
    assert noise.labels is None
    assert (recorded.unit, recorded.record) == ("record", (8.0, 1e-5))
    assert (private.unit, private.record, private.labels_in_record) == ("record", (8.0, 1e-5), True)


def test_label_mechanism_is_in_the_guarantee_and_used(rng) -> None:
    X, y = blobs(rng, 300)
    randomised = RandomisedLabels(0.5, [0, 1, 2])
    source = PrivateSource.fit(
        X, y, OptimalNoise(8.0, sensitivity=1.0), label_mechanism=randomised, random_state=0
    )
    assert source.guarantee_.labels == (0.5, 0.0)
    assert abs(source.description_.counts - 100).max() > 1  # the sizes of the randomised classes


def test_noise_differs_between_sources_without_a_seed(rng) -> None:
    X, y = blobs(rng, 60)
    one, two = (PrivateSource.fit(X, y, OptimalNoise(1.0, sensitivity=1.0)) for _ in range(2))
    assert np.abs(one.description_.means - two.description_.means).max() > 0.0


def test_from_rows_keeps_the_guarantee_of_the_rows(rng) -> None:
    X, y = blobs(rng, 200)
    maker = Fabricator(OptimalNoise(8.0, sensitivity=1.0), stopping=0)
    private = maker.fabricate(X, y, 0)
    source = PrivateSource.from_rows(private, y, maker.guarantee_, noise_variance=maker.mechanism.variance)
    assert source.guarantee_ == maker.guarantee_.provided(GIVEN_ROWS)
    assert "Provided that the given rows are those" in str(source.guarantee_)
    with pytest.raises(InvalidInputError, match="Guarantee"):
        PrivateSource.from_rows(private, y, None)
    with pytest.raises(InvalidInputError, match="noise_variance"):
        PrivateSource.from_rows(private, y, maker.guarantee_, noise_variance=float("nan"))


def test_from_moments_uses_the_release(rng) -> None:
    X, y = blobs(rng, 500)
    released = moments().fit(X, y)
    source = PrivateSource.from_moments(released)
    np.testing.assert_array_equal(source.description_.means, released.means_)
    with pytest.raises(InvalidInputError, match="fitted"):
        PrivateSource.from_moments(moments())
    released.encoding_ = "something"
    with pytest.raises(InvalidInputError, match="another encoder"):
        PrivateSource.from_moments(released)


@pytest.mark.parametrize(
    "mechanism", [OptimalNoise(8.0, sensitivity=2.0), PrivateMoments(4.0, classes=[0, 1, 2])]
)
def test_encoder_is_saved_with_the_source(mechanism, rng, tmp_path) -> None:
    X, y = blobs(rng, 300)
    source = PrivateSource.fit(X, y, mechanism, encoder=RandomFeatures(16, "projection", random_state=4))
    source.save(tmp_path / "s")
    loaded = PrivateSource.load(tmp_path / "s")
    np.testing.assert_array_equal(loaded.encode(X), source.encode(X))
    assert (loaded.n_features_in_, loaded.n_encoded_) == (6, 16)
    # A raw entry may change every encoded one.
    assert source.guarantee_.entry[0] >= source.guarantee_.record[0]


def test_noise_with_less_sensitivity_than_the_encoder_is_refused(rng) -> None:
    X, y = blobs(rng, 60)
    encoder = RandomFeatures(16, "projection")
    for noise in (OptimalNoise(8.0, sensitivity=1.0), Fabricator(OptimalNoise(8.0, sensitivity=1.9))):
        with pytest.raises(InvalidInputError, match="change by 2"):
            PrivateSource.fit(X, y, noise, encoder=encoder)
    for sensitivity in (2.0, Box(-0.5, 0.5, 16)):  # a declared domain is kept by clipping
        PrivateSource.fit(X, y, OptimalNoise(8.0, sensitivity=sensitivity), encoder=encoder)


def test_encoder_with_a_shape_is_saved_with_the_source(rng, tmp_path) -> None:
    X, y = rng.random((60, 48)), np.arange(60) % 3
    encoder = GradientHistograms((8, 6), n_cells=(3, 2), margin=1)
    source = PrivateSource.fit(X, y, moments(), encoder=encoder)
    source.save(tmp_path / "s")
    np.testing.assert_array_equal(PrivateSource.load(tmp_path / "s").encode(X), source.encode(X))


def test_encoder_fitted_to_raw_rows_voids_the_guarantee_and_cannot_be_saved(rng) -> None:
    X, y = blobs(rng, 60)
    with pytest.warns(PrivacyLeakWarning, match="fitted to the raw data"):
        source = PrivateSource.fit(X, y, OptimalNoise(1.0, sensitivity=1.0), encoder=StandardScaler())
    assert not source.guarantee_.holds
    with pytest.raises(InvalidInputError, match="fixed"):
        source.to_bytes()


def test_moments_after_an_encoder_fitted_to_raw_rows_promise_nothing(rng) -> None:
    X, y = blobs(rng, 300)
    encoder = StandardScaler().fit(X)
    released = moments().fit(encoder.transform(X), y)
    with pytest.warns(PrivacyLeakWarning, match="fitted to the raw data"):
        assert not PrivateSource.from_moments(released, encoder).guarantee_.holds


def test_moments_take_no_label_mechanism(rng) -> None:
    X, y = blobs(rng, 60)
    with pytest.raises(InvalidInputError, match="label_mechanism"):
        PrivateSource.fit(X, y, moments(), label_mechanism=RandomisedLabels(1.0, [0, 1, 2]))


@pytest.mark.parametrize(
    "mechanism", [OptimalNoise(8.0, sensitivity=1.0), PrivateMoments(4.0, classes=[0, 1, 2])]
)
@pytest.mark.parametrize("cell", [np.nan, np.inf, "text"])
def test_predict_refuses_queries_that_are_not_finite_numbers(mechanism, cell, rng) -> None:
    X, y = blobs(rng, 60)
    with pytest.raises(InvalidInputError, match="finite numbers"):
        PrivateSource.fit(X, y, mechanism).predict(np.full((2, X.shape[1]), cell))


def test_source_of_membership_autoencoders_is_saved_and_loaded(rng, tmp_path) -> None:
    X, y = blobs(rng, 60)
    source = PrivateSource.fit(
        X, y, OptimalNoise(8.0, sensitivity=1.0), estimator=WideMembershipAutoencoder(3, 2)
    )
    source.save(tmp_path / "s")
    np.testing.assert_array_equal(PrivateSource.load(tmp_path / "s").predict(X), source.predict(X))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mechanism": "optimal"}, "mechanism must be"),
        ({"mechanism": 1.0}, "mechanism must be"),
        (
            {
                "mechanism": Fabricator(Laplace(1.0, sensitivity=1.0)),
                "label_mechanism": RandomisedLabels(1.0, [0, 1, 2]),
            },
            "its own label_mechanism",
        ),
        ({"mechanism": OptimalNoise(1.0, sensitivity=1.0), "estimator": StandardScaler()}, "autoencoder"),
    ],
)
def test_fit_refuses_bad_arguments_in_one_line(arguments, message, rng) -> None:
    X, y = blobs(rng, 30)
    with pytest.raises(InvalidInputError, match=message) as caught:
        PrivateSource.fit(X, y, **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("change", ["nan", "short", "text", "one row"])
def test_fit_refuses_bad_rows_in_one_line(change, rng) -> None:
    X, y = blobs(rng, 30)
    rows, labels = {
        "nan": (np.where(np.arange(6) == 2, np.nan, X), y),
        "short": (X, y[:-1]),
        "text": (X.astype(str).astype(object) + "x", y),
        "one row": (X[0], y[0]),
    }[change]
    with pytest.raises(ValueError) as caught:
        PrivateSource.fit(rows, labels, OptimalNoise(1.0, sensitivity=1.0))
    assert "\n" not in str(caught.value)


def test_predict_refuses_queries_of_another_width(rng) -> None:
    source, X, _ = made("noise", rng)
    with pytest.raises(InvalidInputError, match="6 features"):
        source.predict(X[:, :4])


def test_fit_works_with_one_class_one_row_or_constant_rows(rng) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for X, y in [
            (np.ones((5, 3)), np.zeros(5)),
            (rng.normal(size=(1, 3)), [4]),
            (rng.normal(size=(4, 1)), [0, 0, 1, 1]),
        ]:
            source = PrivateSource.fit(X, y, OptimalNoise(1.0, sensitivity=1.0))
            assert np.isfinite(source.description_.scores(source.encode(X))).all()


# --- what voids or conditions a promise --------------------------------------------------------------------


@pytest.mark.parametrize("mechanism", [Laplace(8.0, sensitivity=1.0), moments()])
def test_seed_of_a_source_voids_its_guarantee(mechanism, rng) -> None:
    X, y = blobs(rng, 60)
    assert PrivateSource.fit(X, y, mechanism).guarantee_.holds
    assert SEEDED in PrivateSource.fit(X, y, mechanism, random_state=0).guarantee_.voided_by


def test_moments_inside_a_void_source_are_void_too(rng) -> None:
    X, y = blobs(rng, 300)
    encoder = StandardScaler().fit(X)
    released = moments().fit(encoder.transform(X), y)
    with pytest.warns(PrivacyLeakWarning, match="fitted to the raw data"):
        from_moments = PrivateSource.from_moments(released, encoder)
    with pytest.warns(PrivacyLeakWarning, match="fitted to the raw data"):
        fitted = PrivateSource.fit(X, y, moments(), encoder=StandardScaler())
    for source in (from_moments, fitted):
        assert LEARNED_ENCODER in source.description_.moments.guarantee_.voided_by
    assert released.guarantee_.holds  # the caller's own object is as it was


def test_smoothing_that_looks_at_raw_rows_voids_the_source(rng) -> None:
    X, y = blobs(rng, 60)
    with pytest.warns(PrivacyLeakWarning):
        source = PrivateSource.fit(X, y, Fabricator(Laplace(8.0, sensitivity=1.0), stopping="documented"))
    assert not source.guarantee_.holds


def test_source_of_persons_keeps_no_more_rows_of_one_than_declared(rng) -> None:
    X, y = blobs(rng, 300)
    who = np.arange(300) // 10
    noise = OptimalNoise(8.0, 1e-3, Box(-2.0, 2.0, 6), unit="record", rows_per_person=2)
    for mechanism in (noise, Fabricator(noise, stopping=0)):
        source = PrivateSource.fit(X, y, mechanism, person=who)
        assert source.description_.counts.sum() == 60
        assert source.guarantee_ == noise.guarantee(6).provided(SAME_PERSON)
        assert source.guarantee_.person is not None
        assert source.guarantee_.untouched_entries is None  # it would tell the number of rows
        for arguments in (
            {"mechanism": mechanism},
            {"mechanism": OptimalNoise(1.0, sensitivity=1.0), "person": who},
        ):
            with pytest.raises(InvalidInputError, match="go together"):
                PrivateSource.fit(X, y, **arguments)
    of_persons = PrivateMoments(8.0, classes=[0, 1, 2], radius=3.0, rows_per_person=2)
    found = PrivateSource.fit(X, y, of_persons, person=who)
    assert (found.guarantee_.unit, found.guarantee_.person) == ("person", (8.0, 1e-5))
    assert abs(found.description_.counts.sum() - 30) < 20  # persons, not rows


@pytest.mark.parametrize("record", RECORDS)
def test_file_of_a_source_has_one_outline_whatever_a_single_record_holds(record, rng) -> None:
    pytest.importorskip("pandas")
    X, y = rng.random((60, 3)), np.array(["no", "yes"])[np.arange(60) % 2]
    machine = KAHM(2, scale=1.0)
    noises = {
        "noise": Laplace(4.0, sensitivity=Box(0, 1)),
        "moments": PrivateMoments(4.0, classes=["no", "yes", "a rare one"], radius=3.0),
    }
    for kind, noise in noises.items():
        for name, container in in_containers(X).items():
            other, labels = in_containers(replaced(X, 7, record))[name], y
            if kind == "moments":  # the label is part of the record
                labels = np.where(np.arange(60) == 7, "a rare one", y.astype("U10"))
            one, two = (
                PrivateSource.fit(rows, known, noise, estimator=machine).to_bytes()
                for rows, known in ((container, y), (other, labels))
            )
            assert outline(one) == outline(two), (kind, name)
