"""Leave-one-out distances in closed form, against machines from which the row was really left out."""

import numpy as np
import pytest

from onefold import KAHM, AutoencoderClassifier, DeepMembershipAutoencoder, FoldingClassifier, WideKAHM, io
from onefold.models.kahm.core import FEWEST_ROWS
from reference import kahm as literal

pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")


def total(model: FoldingClassifier | AutoencoderClassifier) -> tuple[float, int]:
    squares = model.leave_one_out_squares()
    return float(squares.sum()), squares.size


def literal_sum(samples: np.ndarray, n_components: int) -> float:
    machine = literal.fit_shrunk(samples, n_components)
    return sum(literal.left_out_distance(machine, i) ** 2 for i in range(len(samples)))


@pytest.mark.parametrize(
    ("n_rows", "n_features", "n_components"), [(9, 4, 3), (12, 30, 5), (40, 6, 6), (7, 9, 20)]
)
@pytest.mark.parametrize("factor", [0.01, 1.0, 50.0])
def test_sum_equals_that_of_machines_without_each_row(n_rows, n_features, n_components, factor, rng) -> None:
    X = factor * rng.normal(size=(2 * n_rows, n_features))
    y = np.repeat([0, 1], n_rows)
    model = AutoencoderClassifier(KAHM(n_components, regularisation="documented")).fit(X, y)
    squares, counted = total(model)
    assert counted == 2 * n_rows
    expected = literal_sum(X[:n_rows], n_components) + literal_sum(X[n_rows:], n_components)
    assert squares == pytest.approx(expected, rel=1e-6)


def test_sum_is_over_batches_of_at_least_five_rows(rng) -> None:
    X = rng.normal(size=(17, 3))
    y = np.array([0] * 13 + [1] * 4)
    model = FoldingClassifier(n_components=2, batch_size=6, regularisation="documented").fit(X, y)
    squares, counted = total(model)
    batches = [X[:13][model.batches_[:13] == number] for number in np.unique(model.batches_[:13])]
    assert counted == 13
    assert min(map(len, batches)) >= FEWEST_ROWS
    assert squares == pytest.approx(sum(literal_sum(rows, 2) for rows in batches), rel=1e-6)


def test_equal_rows_have_distance_zero_and_are_counted() -> None:
    model = FoldingClassifier().fit(np.tile([3.0, 4.0], (12, 1)), np.repeat([0, 1], 6))
    squares, counted = total(model)
    assert counted == 12
    assert squares == pytest.approx(0.0, abs=1e-20)


def test_large_machine_and_single_precision_agree_with_many_layers(rng) -> None:
    X = rng.normal(size=(150, 5)) @ rng.normal(size=(5, 8))
    expected = literal_sum(X, 4)
    for rows, tolerance in ((X, 1e-6), (X.astype(np.float32), 1e-3)):
        model = AutoencoderClassifier(WideKAHM(4, n_layers=3, regularisation="documented")).fit(
            rows, np.zeros(150)
        )
        assert total(model)[0] == pytest.approx(expected, rel=tolerance)


def test_row_far_from_all_others_is_compared_with_the_nearest_of_them(rng) -> None:
    """In one dimension its kernel values with all others vanish in double precision."""
    X = np.concatenate([rng.normal(size=900), [1e6]])[:, None]
    squares, _ = total(AutoencoderClassifier(KAHM(1, scale="auto")).fit(X, np.zeros(len(X))))
    assert 0.99e12 < squares < 1.01e12


@pytest.mark.parametrize("unit", [1e-150, 1e-30, 1e30, 1e140])
def test_sum_has_the_unit_of_the_data(unit, rng) -> None:
    X, y = rng.normal(size=(40, 4)), np.repeat([0, 1], 20)
    one, _ = total(FoldingClassifier(scale="auto").fit(X, y))
    other, _ = total(FoldingClassifier(scale="auto").fit(X * unit, y))
    assert other / unit / unit == pytest.approx(one, rel=1e-6)


@pytest.mark.parametrize("compact", [False, True])
def test_loaded_model_gives_the_same_sum(compact, tmp_path, rng) -> None:
    X, y = rng.normal(size=(60, 4)), np.repeat([0, 1, 2], 20)
    model = FoldingClassifier(batch_size=10).fit(X, y)
    io.save(model, tmp_path / "model", compact=compact)
    squares, counted = total(io.load(tmp_path / "model"))
    assert (counted, squares) == (60, pytest.approx(total(model)[0], rel=1e-12))


def test_other_machines_say_that_they_have_no_closed_form(rng) -> None:
    model = AutoencoderClassifier(DeepMembershipAutoencoder()).fit(rng.normal(size=(20, 3)), np.zeros(20))
    with pytest.raises(AttributeError, match="DeepMembershipAutoencoder has no leave-one-out distances"):
        model.leave_one_out_squares()
