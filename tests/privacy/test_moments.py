"""Private moments: sensitivities, noise, what comes out, adding up, files."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2
from sklearn.utils.estimator_checks import parametrize_with_checks

from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.privacy import _moment_repair as repair
from onefold.privacy import calibration
from onefold.privacy._moment_release import DIGITS, SENSITIVITIES, Blocks, Noise, class_sums, deviations
from onefold.privacy.moments import CLASSES_SHARE, PrivateMoments

RELATIONS = ("add-remove", "replace")


def cloud(n=400, p=3, n_classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.normal(size=(n, p)) / 4 + np.eye(max(p, n_classes))[y, :p] / 2
    return X, y


# Checks use a few dozen rows: hardly any noise, and a ball that holds them all. None is expected to fail.
@parametrize_with_checks([PrivateMoments(1e6, radius=30.0, random_state=0)])
def test_conforms(estimator, check) -> None:
    check(estimator)


# --- sensitivity ------------------------------------------------------------------------------------------


def changes(rows, labels, new_rows, new_labels):
    """Euclidean change of each block between two datasets, computed from what the release adds up."""

    def blocks(X, y):
        model = PrivateMoments(None, classes=[0, 1], centre=None).fit(X, y)
        return model.embed(X).sum(axis=0), model.counts_, model.sums_, model.second_moments_

    pairs = zip(blocks(rows, labels), blocks(new_rows, new_labels), strict=True)
    return Blocks(*(float(np.linalg.norm((a - b).ravel())) for a, b in pairs))


BACKGROUND = np.random.default_rng(1).normal(size=(30, 3)), np.arange(30) % 2
UNIT, OTHER = np.array([[0.6, 0.0, 0.8]]), np.array([[0.8, 0.0, -0.6]])


def with_record(record, label):
    return np.vstack([BACKGROUND[0], record]), np.append(BACKGROUND[1], label)


ATTAINED = {
    "add-remove": [(*BACKGROUND, *with_record(UNIT, 1))],
    "replace": [
        (*with_record(UNIT, 0), *with_record(-UNIT, 0)),  # opposite: the sums
        (*with_record(UNIT, 0), *with_record(OTHER, 0)),  # orthogonal: the matrices
        (*with_record(UNIT, 0), *with_record(UNIT, 1)),  # the label alone: the counts
    ],
}


@pytest.mark.parametrize("relation", RELATIONS)
def test_the_claimed_sensitivity_is_attained(relation: str) -> None:
    found = np.max([changes(*pair) for pair in ATTAINED[relation]], axis=0)
    np.testing.assert_allclose(found, SENSITIVITIES[relation], rtol=1e-12)


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("length", [1.0, 1e6, 1e300, "random"])
def test_no_neighbour_exceeds_the_claimed_sensitivity(relation: str, length: float | str) -> None:
    rng = np.random.default_rng(2)
    largest = np.zeros(4)
    for _ in range(300):
        pair = rng.normal(size=(2, 3))
        pair /= np.linalg.norm(pair, axis=1, keepdims=True)
        pair *= rng.exponential(size=(2, 1)) if length == "random" else length
        labels = rng.integers(0, 2, 2)
        before = BACKGROUND if relation == "add-remove" else with_record(pair[:1], labels[0])
        largest = np.maximum(largest, changes(*before, *with_record(pair[1:], labels[1])))
    assert np.all(largest <= np.array(SENSITIVITIES[relation]) * (1 + 1e-12))
    if length != "random":
        assert np.all(largest > 0.9 * np.array(SENSITIVITIES[relation]))  # the search is not idle


@pytest.mark.parametrize("relation", RELATIONS)
def test_all_blocks_together_cost_what_was_allowed(relation: str) -> None:
    sigma = deviations(0.7, Blocks(0.1, 0.2, 0.3, 0.4), relation)
    spent = sum((s / level) ** 2 for s, level in zip(SENSITIVITIES[relation], sigma, strict=True))
    assert math.isclose(spent, 0.7**2)


def test_rows_outside_the_declared_ball_are_shortened_and_others_kept() -> None:
    model = PrivateMoments(None, classes=[0], centre=None, radius=2.0)
    rows = np.array([[3.0, 4.0], [0.6, 0.8], [0.0, 0.0], [1e300, 1e300]])
    embedded = model.fit(rows, np.zeros(4, int)).embed(rows)
    np.testing.assert_allclose(embedded, [[0.6, 0.8], [0.3, 0.4], [0, 0], [0.5**0.5, 0.5**0.5]], rtol=1e-12)
    assert np.all(np.linalg.norm(embedded, axis=1) <= 1.0)


def test_seen_from_a_centre_no_row_is_longer_than_one() -> None:
    X, y = cloud()
    model = PrivateMoments(1.0, classes=range(3), random_state=0).fit(X, y)
    norms = np.linalg.norm(model.embed(np.vstack([X, model.centre_])), axis=1)
    assert np.all(norms <= 1.0)
    np.testing.assert_allclose(norms[:-1], 1.0, rtol=1e-12)
    assert norms[-1] == 0.0


# --- noise ------------------------------------------------------------------------------------------------


def accepts(values, sigma):
    """Does a chi-square test at level 1e-6 believe in this standard deviation and a mean of zero?"""
    values = np.ravel(values)
    quantile = chi2.cdf(np.sum(values**2) / sigma**2, len(values))
    mean = abs(values.mean()) * math.sqrt(len(values)) / sigma
    return 5e-7 < quantile < 1 - 5e-7 and mean < 5


def noise_of(epsilon, hardened, relation, n_releases=200, p=5):
    """What a release adds to each block, from releases of one dataset."""
    X, y = cloud(60, p, 3, seed=4)
    given = {"classes": range(3), "centre": "private", "neighbours": relation}
    parts = {name: [] for name in ("centre", "counts", "sums", "diagonal", "above")}
    upper = np.triu_indices(p, 1)
    for seed in range(n_releases):
        model = PrivateMoments(epsilon, 1e-5, hardened=hardened, random_state=seed, **given).fit(X, y)
        # The same records about the centre that this release found.
        rows = Noise.of(0, hardened).on_grid(model.embed(X))
        totals, seconds = class_sums(rows, y.astype(np.intp), 3)
        plain = np.bincount(y)
        parts["counts"].append(model.counts_ - plain)
        parts["sums"].append(model.sums_ - totals)
        extra = model.second_moments_ - seconds
        np.testing.assert_array_equal(extra, extra.transpose(0, 2, 1))
        parts["diagonal"].append(np.diagonal(extra, axis1=1, axis2=2))
        parts["above"].append(extra[:, *upper])
    return {name: np.array(part) for name, part in parts.items() if name != "centre"}


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("hardened", [False, True])
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_noise_has_the_right_scale(epsilon: float, hardened: bool, relation: str) -> None:
    mu = calibration.mu_of(epsilon, 1e-5)
    size, _, total, second = SENSITIVITIES[relation][1], None, *SENSITIVITIES[relation][2:]
    right = {
        "counts": size / (mu * math.sqrt(0.02 / 1.05)),
        "sums": total / (mu * math.sqrt(0.28 / 1.05)),
        "diagonal": second / (mu * math.sqrt(0.70 / 1.05)),
        "above": second / (mu * math.sqrt(0.70 / 1.05) * math.sqrt(2.0)),
    }
    for name, values in noise_of(epsilon, hardened, relation).items():
        assert accepts(values, right[name]), name
        assert not accepts(values, right[name] * 2 / 3), name
        assert not accepts(values, right[name] * 3 / 2), name


def test_the_noise_of_the_centre_has_the_right_scale() -> None:
    # Records of zeros: the centre is noise over the noisy number of records, and that number is released.
    sigma = 1.0 / (calibration.mu_of(1.0, 1e-5) * math.sqrt(0.05 / 1.05))
    values = []
    for seed in range(100):
        model = PrivateMoments(1.0, 1e-5, classes=[0], random_state=seed).fit(
            np.zeros((5000, 6)), np.zeros(5000)
        )
        values.append(model.centre_ * model.counts_[0])
    assert accepts(values, sigma)
    assert not accepts(values, sigma * 2 / 3)
    assert not accepts(values, sigma * 3 / 2)


def test_entries_of_the_noise_are_independent() -> None:
    noise = Noise.of(5, False).to_matrices(np.zeros((20_000, 3, 3)), 1.0)
    vectors = noise[:, *np.triu_indices(3)]
    expected = np.diag([1.0, 0.5, 0.5, 1.0, 0.5, 1.0])
    np.testing.assert_allclose(np.cov(vectors.T), expected, atol=0.04)


@pytest.mark.parametrize("hardened", [False, True])
def test_no_two_numbers_share_their_noise(hardened: bool) -> None:
    # Records of zeros: all that is released is noise. Shared noise would cancel in a difference.
    y = np.repeat(np.arange(4), 50)
    model = PrivateMoments(1.0, classes=range(4), centre=None, hardened=hardened, random_state=0)
    model.fit(np.zeros((200, 6)), y)
    upper = model.second_moments_[:, *np.triu_indices(6)]
    released = np.concatenate([model.sums_.ravel(), upper.ravel()])
    assert len(np.unique(released)) == len(released)
    assert len(np.unique(model.counts_)) == 4


def test_without_a_seed_no_two_releases_are_alike() -> None:
    X, y = cloud()
    for hardened in (False, True):
        releases = [PrivateMoments(1.0, classes=range(3), hardened=hardened).fit(X, y) for _ in range(2)]
        assert not np.any(releases[0].sums_ == releases[1].sums_)


def test_a_hardened_release_lies_on_its_grid_and_is_exact() -> None:
    X, y = cloud(2000, 4)
    model = PrivateMoments(1.0, classes=range(3), hardened=True, random_state=0).fit(X, y)
    for values, digits in ((model.counts_, 0), (model.sums_, DIGITS), (model.second_moments_, 2 * DIGITS)):
        steps = np.ldexp(values, digits)
        np.testing.assert_array_equal(steps, np.round(steps))
    # Sums of records on the grid do not depend on their order: no rounding happened.
    rows = Noise.of(0, True).on_grid(model.embed(X))
    assert np.all(np.linalg.norm(rows, axis=1) <= np.linalg.norm(model.embed(X), axis=1))
    assert np.abs(rows - model.embed(X)).max() < 2.0**-DIGITS
    forwards, backwards = class_sums(rows, y, 3), class_sums(rows[::-1], y[::-1], 3)
    for one, other in zip(forwards, backwards, strict=True):
        np.testing.assert_array_equal(one, other)


# --- classes ----------------------------------------------------------------------------------------------


def test_classes_found_privately_are_those_of_many_records() -> None:
    X, y = cloud(3000)
    y[:5] = 9
    model = PrivateMoments(1.0, random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.guarantee_.record == (1.0, 1e-5)


@pytest.mark.filterwarnings("ignore:The number of unique classes")
@pytest.mark.parametrize("hardened", [False, True])
def test_a_class_of_one_record_shows_as_rarely_as_promised(hardened: bool) -> None:
    # Nothing but classes of one record, and a delta large enough to see some of them.
    delta, n_classes = 0.1, 30_000
    model = PrivateMoments(1.0, delta, centre=None, hardened=hardened, random_state=0)
    shown = len(model.fit(np.zeros((n_classes, 1)), np.arange(n_classes)).classes_)
    expected = -math.expm1(-CLASSES_SHARE * delta) * n_classes
    allowance = 5 * math.sqrt(expected)
    assert shown < expected + allowance
    if not hardened:  # rounding is paid for by a slightly higher threshold
        assert shown > expected - allowance


def test_no_class_at_all_is_one_line() -> None:
    X, y = cloud(30)
    with pytest.raises(InvalidInputError, match="not one class has enough records"):
        PrivateMoments(1.0, random_state=0).fit(X, y)


def test_public_classes_without_records_are_kept() -> None:
    X, y = cloud()
    model = PrivateMoments(1.0, classes=[7, 0, 1, 2], random_state=0).fit(X, y)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2, 7])
    assert np.isfinite(model.covariances_).all()
    assert np.linalg.eigvalsh(model.covariances_).min() > 0.0


# --- what comes out ---------------------------------------------------------------------------------------


def test_without_noise_the_moments_are_exact() -> None:
    X, y = cloud()
    model = PrivateMoments(None, centre=None).fit(X, y)
    unit = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    for code in range(3):
        own = unit[y == code]
        assert model.counts_[code] == len(own)
        np.testing.assert_allclose(model.sums_[code], own.sum(axis=0))
        np.testing.assert_allclose(model.second_moments_[code], own.T @ own)
        np.testing.assert_allclose(model.means_[code], own.mean(axis=0))
        found = model.covariances(shrinkage=0.0, floor=0.0, least=0.0)[code]
        np.testing.assert_allclose(found, np.cov(own.T, bias=True), rtol=1e-6, atol=1e-9)
    assert "nothing is promised" in str(model.guarantee_)
    assert model.guarantee_.record[0] == math.inf


def test_the_private_centre_is_near_the_mean() -> None:
    X, y = cloud(20_000)
    unit = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    model = PrivateMoments(1.0, classes=range(3), random_state=0).fit(X, y)
    np.testing.assert_allclose(model.centre_, unit.mean(axis=0), atol=0.01)
    assert not np.array_equal(model.centre_, unit.mean(axis=0))


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 1.0, 10.0])
@pytest.mark.parametrize("shrinkage", ["auto", 0.0, 0.5, 1.0])
def test_covariances_are_positive_definite_at_any_noise(epsilon: float, shrinkage: str | float) -> None:
    X, y = cloud(300, 8)
    model = PrivateMoments(epsilon, classes=range(3), random_state=0).fit(X, y)
    found = model.covariances(shrinkage)
    np.testing.assert_array_equal(found, found.transpose(0, 2, 1))
    assert np.linalg.eigvalsh(found).min() > 0.0
    assert np.all(np.linalg.norm(model.means_, axis=1) <= 1.0 + 1e-12)


def test_the_floor_is_a_multiple_of_the_known_noise() -> None:
    X, y = cloud(3000, 8)
    model = PrivateMoments(1.0, classes=range(3), random_state=0).fit(X, y)
    edge = model.second_noise_ / model.counts_ * math.sqrt(2.0 * 8)
    smallest = np.linalg.eigvalsh(model.covariances(0.0, floor=8.0, least=0.0)).min(axis=1)
    np.testing.assert_allclose(smallest, 8.0 * edge, rtol=1e-9)


def test_noise_alone_has_the_eigenvalues_that_the_floor_assumes() -> None:
    noise = Noise.of(0, False).to_matrices(np.zeros((3, 300, 300)), 2.0)
    largest = np.abs(np.linalg.eigvalsh(noise)).max(axis=1)
    np.testing.assert_allclose(largest, 2.0 * math.sqrt(2.0 * 300), rtol=0.05)
    np.testing.assert_allclose((noise**2).sum(axis=(1, 2)), 4.0 * 300 * 301 / 2, rtol=0.02)


def test_automatic_shrinkage_follows_from_the_noise_level() -> None:
    # Two classes with different spreads: much data is believed, of little data only the pool is left.
    rng = np.random.default_rng(0)

    def remaining(n):
        """Share of the classes' difference that automatic shrinkage leaves."""
        y = np.arange(n) % 2
        X = rng.normal(size=(n, 20)) * np.where(y[:, None], 0.05, 0.2)
        model = PrivateMoments(1.0, classes=[0, 1], centre=None, random_state=0).fit(X, y)
        kept, all_of_it = (model.covariances(share, floor=0.0, least=0.0) for share in ("auto", 0.0))
        return np.linalg.norm(kept[0] - kept[1]) / np.linalg.norm(all_of_it[0] - all_of_it[1])

    assert remaining(200_000) > 0.9
    assert remaining(400) < 0.4


def test_shrinkage_is_the_share_of_the_noise() -> None:
    noise = Noise.of(0, False).to_matrices(np.zeros((1, 200, 200)), 0.3)[0]
    signal = np.random.default_rng(1).normal(size=(200, 200))
    signal = signal + signal.T
    signal *= np.linalg.norm(noise) / np.linalg.norm(signal)
    assert repair._noise_share(noise, 0.3) > 0.97
    np.testing.assert_allclose(repair._noise_share(noise + signal, 0.3), 1 / 2, atol=0.03)
    np.testing.assert_allclose(repair._noise_share(noise + 3 * signal, 0.3), 1 / 10, atol=0.01)
    assert repair._noise_share(np.zeros((2, 2)), 0.0) == 1.0


def test_the_noise_of_the_mean_does_not_bias_the_covariance() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(100, 4)) / 10
    total, second, counts = rows.sum(axis=0), rows.T @ rows, np.full(4000, 100.0)
    totals = total + rng.normal(0.0, 15.0, (4000, 4))
    seconds = np.repeat(second[None], 4000, axis=0)
    found = repair.raw_covariances(counts, totals, seconds, np.full(4000, 15.0)).mean(axis=0)
    np.testing.assert_allclose(found, np.cov(rows.T, bias=True), atol=0.002)  # the correction is 0.0225


def test_release_depends_on_rows_only_through_the_ball() -> None:
    X, y = cloud()
    far = X / np.linalg.norm(X, axis=1, keepdims=True)
    given = {"classes": range(3), "random_state": 0}
    one, other = (PrivateMoments(1.0, **given).fit(rows, y) for rows in (5.0 * far, 7.0 * far))
    np.testing.assert_allclose(one.second_moments_, other.second_moments_, rtol=1e-9)


# --- guarantee --------------------------------------------------------------------------------------------


def test_the_guarantee_speaks_of_records_with_labels() -> None:
    X, y = cloud()
    promise = PrivateMoments(1.0, classes=range(3), random_state=0).fit(X, y).guarantee_
    assert promise.unit == "record"
    assert promise.holds
    assert promise.record == promise.record_with_label == (1.0, 1e-5)
    assert "one record and its label more or less: epsilon 1 per record" in str(promise)
    assert "labels" not in str(promise).split("Not covered:")[1]
    # A replaced record is at most one less and one more.
    assert 1.0 < promise.labels[0] < calibration.epsilon_of(2 * calibration.mu_of(1.0, 1e-5), 1e-5) + 1e-9
    replaced = (
        PrivateMoments(1.0, classes=range(3), neighbours="replace", random_state=0).fit(X, y).guarantee_
    )
    assert replaced.labels == replaced.entry == replaced.record == (1.0, 1e-5)
    assert "the number of rows" in str(replaced).split("Not covered:")[1]


@pytest.mark.parametrize("classes", [None, range(3)])
def test_the_blocks_compose_to_the_stated_epsilon(classes: object) -> None:
    X, y = cloud(5000)
    model = PrivateMoments(1.0, classes=classes, random_state=0).fit(X, y)
    centre = 1.0 / (calibration.mu_of(1.0, 1e-5 * (0.9 if classes is None else 1.0)) * math.sqrt(0.05 / 1.05))
    levels = [centre, model.count_noise_[0], model.sum_noise_[0], model.second_noise_[0]]
    mu = math.sqrt(sum(level**-2 for level in levels))
    delta = ndtr(mu / 2 - 1 / mu) - math.e * ndtr(-mu / 2 - 1 / mu)
    assert math.isclose(delta, 1e-5 * (0.9 if classes is None else 1.0), rel_tol=1e-6)


# --- adding up --------------------------------------------------------------------------------------------


def test_moments_and_variances_add_up() -> None:
    X, y = cloud(900)
    centre = np.array([0.2, 0.2, 0.1])
    parts = [slice(0, 300), slice(300, 900)]
    given = {"classes": range(3), "centre": centre}
    a, b = (
        PrivateMoments(1.0 + k, random_state=k, **given).fit(X[part], y[part]) for k, part in enumerate(parts)
    )
    before = a.sums_.copy()
    both = a.add(b)
    np.testing.assert_array_equal(a.sums_, before)
    np.testing.assert_allclose(both.counts_, a.counts_ + b.counts_)
    np.testing.assert_allclose(both.sums_, a.sums_ + b.sums_)
    np.testing.assert_allclose(both.second_moments_, a.second_moments_ + b.second_moments_)
    np.testing.assert_allclose(both.second_noise_**2, a.second_noise_**2 + b.second_noise_**2)
    assert both.guarantee_.record == (2.0, 1e-5)  # the weaker promise
    assert both.guarantee_.n_owners == 2
    assert "each of 2 owners" in str(both.guarantee_)
    exact = [PrivateMoments(None, **given).fit(X[part], y[part]) for part in (*parts, slice(None))]
    np.testing.assert_allclose(exact[0].add(exact[1]).second_moments_, exact[2].second_moments_)


def test_owners_may_have_different_classes() -> None:
    X, y = cloud(900)
    exact = PrivateMoments(None, centre=None).fit(X, y)
    parts = [PrivateMoments(None, centre=None).fit(X[keep], y[keep]) for keep in (y < 2, y == 2)]
    both = parts[0].add(parts[1])
    np.testing.assert_array_equal(both.classes_, [0, 1, 2])
    np.testing.assert_allclose(both.sums_, exact.sums_)


def test_what_does_not_belong_together_is_not_added() -> None:
    X, y = cloud()
    plain = PrivateMoments(None, centre=None).fit(X, y)
    others = {
        "different centres": PrivateMoments(None).fit(X, y),
        "different features": PrivateMoments(None, centre=None).fit(X[:, :2], y),
        "radii": PrivateMoments(None, centre=None, radius=2.0).fit(X, y),
        "neighbouring relations": PrivateMoments(
            1.0, centre=None, classes=range(3), neighbours="replace"
        ).fit(X, y),
    }
    for message, other in others.items():
        with pytest.raises(InvalidInputError, match=message):
            plain.add(other)


# --- files and input --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "labels", [np.array([3, 5, 7]), np.array(["a", "bc", "d"]), np.array(["a", "b", "c"], object)]
)
def test_saved_and_loaded(tmp_path: Path, labels: np.ndarray) -> None:
    X, y = cloud()
    model = PrivateMoments(2.0, classes=labels, random_state=0).fit(X, labels[y])
    path = tmp_path / "moments.npz"
    model.save(path)
    found = PrivateMoments.load(path)
    assert [file.name for file in tmp_path.iterdir()] == ["moments.npz"]
    np.testing.assert_array_equal(found.classes_, model.classes_)
    np.testing.assert_array_equal(found.covariances_, model.covariances_)
    np.testing.assert_array_equal(found.embed(X), model.embed(X))
    assert found.guarantee_ == model.guarantee_
    assert found.add(model).guarantee_.n_owners == 2
    assert not any(np.shape(array)[:1] == (len(X),) for array in np.load(path).values())  # no row of the data


def test_files_that_are_not_moments_are_one_line(tmp_path: Path) -> None:
    X, y = cloud()
    good = tmp_path / "moments.npz"
    PrivateMoments(None).fit(X, y).save(good)
    arrays = dict(np.load(good))
    (tmp_path / "short.npz").write_bytes(good.read_bytes()[:200])
    (tmp_path / "text.npz").write_text("hello")
    np.savez(tmp_path / "other.npz", a=np.ones(3))
    np.savez(tmp_path / "shape.npz", **{**arrays, "sums": arrays["sums"][:, :2]})
    np.savez(tmp_path / "nan.npz", **{**arrays, "sums": arrays["sums"] * np.nan})
    np.savez(
        tmp_path / "newer.npz",
        **{**arrays, "about": np.array(str(arrays["about"]).replace('"format": 1', '"format": 2'))},
    )
    np.savez(tmp_path / "object.npz", **{**arrays, "about": np.array([{}], dtype=object)})
    for name in ("short", "text", "other", "shape", "nan", "newer", "object"):
        with pytest.raises(FileFormatError) as caught:
            PrivateMoments.load(tmp_path / f"{name}.npz")
        assert "\n" not in str(caught.value)
    with pytest.raises(InvalidInputError, match="there are no moments"):
        PrivateMoments.load(tmp_path / "nowhere.npz")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"delta": 0.0}, "delta"),
        ({"delta": float("nan")}, "delta"),
        ({"radius": -1.0}, "radius"),
        ({"shares": (0.1, 0.2, 0.3)}, "shares"),
        ({"shares": (0.1, 0.2, 0.3, float("nan"))}, "shares"),
        ({"shares": (0.1, 0.0, 0.3, 0.3)}, "shares"),
        ({"neighbours": "friends"}, "neighbours"),
        ({"neighbours": "replace", "classes": None}, "needs classes"),
        ({"centre": "mean"}, "centre"),
        ({"centre": [1.0, 2.0]}, "centre"),
        ({"centre": [1.0, 2.0, float("nan")]}, "centre"),
        ({"classes": [0, 1]}, "labels that are not among"),
        ({"random_state": -1}, "random_state"),
    ],
)
def test_bad_input_is_one_line(given: dict, message: str) -> None:
    X, y = cloud()
    with pytest.raises(InvalidInputError, match=message) as caught:
        PrivateMoments(**{"classes": range(3), **given}).fit(X, y)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("shrinkage", "floor"), [("no", 0.3), (-0.1, 0.3), (1.1, 0.3), (math.nan, 0.3)])
def test_bad_shrinkage_is_one_line(shrinkage: object, floor: float) -> None:
    X, y = cloud()
    with pytest.raises(InvalidInputError, match="shrinkage"):
        PrivateMoments(None).fit(X, y).covariances(shrinkage, floor)


@pytest.mark.parametrize("floor", [-1.0, math.nan, math.inf])
def test_bad_floor_is_one_line(floor: float) -> None:
    X, y = cloud()
    with pytest.raises(InvalidInputError, match="floor"):
        PrivateMoments(None).fit(X, y).covariances("auto", floor)
