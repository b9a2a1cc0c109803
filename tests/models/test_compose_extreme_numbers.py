"""Whatever finite numbers come in, finite images and real distances come out."""

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from onefold import DeepKAHM, WideKAHM

pytestmark = pytest.mark.filterwarnings("ignore")  # extreme numbers may warn as they like; they must not fail

TINY, HUGE = 5e-324, 1.7e308

ordinary = settings(
    max_examples=50, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@st.composite
def cases(draw, width: int):
    numbers = st.floats(allow_nan=False, allow_infinity=False, width=width)
    N, p, M = draw(st.integers(1, 7)), draw(st.integers(1, 4)), draw(st.integers(1, 3))
    dtype = np.dtype(f"f{width // 8}")
    Y = draw(arrays(dtype, (N, p), elements=numbers))
    return Y, draw(arrays(dtype, (M, p), elements=numbers)), draw(st.sampled_from([None, "auto"]))


def assert_answers(Y: np.ndarray, X: np.ndarray, scale: str | None) -> None:
    deep = DeepKAHM(n_components=3, n_layers=3, scale=scale, n_jobs=1)
    wide = WideKAHM(n_components=2, n_layers=2, branch_size=2, partition="contiguous", scale=scale, n_jobs=1)
    for model in (deep.fit(Y), wide.fit(Y)):
        for queries in (X, Y):
            assert np.isfinite(model.transform(queries)).all()
            distances = model.distance(queries)
            assert (distances >= 0).all()  # NaN fails too
            for measure in ("rms", "product", "min", "max"):
                values = model.folding(queries, measure)
                assert ((values >= 0) & (values <= 1)).all()


@ordinary
@given(cases(64))
@example((np.array([[1.5e-34]]), np.array([[3.5e274]]), None))
@example((np.array([[HUGE]]), np.array([[0.0]]), None))
@example((np.array([[HUGE], [-HUGE]]), np.array([[1.0], [HUGE]]), None))
@example((np.array([[HUGE], [-HUGE]]), np.array([[1.0], [HUGE]]), "auto"))
@example((np.array([[9.5e153]]), np.array([[0.0]]), None))
@example((np.array([[TINY], [3 * TINY], [0.0]]), np.array([[TINY], [HUGE]]), None))
@example((np.array([[TINY], [3 * TINY], [0.0]]), np.array([[TINY], [HUGE]]), "auto"))
@example((np.array([[1e-300, 1e300], [1e300, 1.0], [-1e300, 2.0]]), np.array([[1.0, 1.0]]), "auto"))
def test_extreme_numbers_give_finite_answers_in_double_precision(case) -> None:
    assert_answers(*case)


@ordinary
@given(cases(32))
@example((np.float32([[1.4e-36]]), np.float32([[512.0]]), None))
@example((np.float32([[3e38], [-3e38]]), np.float32([[3e38], [1e-45]]), None))
@example((np.float32([[3e38], [-3e38]]), np.float32([[3e38], [1e-45]]), "auto"))
@example((np.float32([[1e-45], [3e-45], [0.0]]), np.float32([[3e38], [1e-45]]), "auto"))
def test_extreme_numbers_give_finite_answers_in_single_precision(case) -> None:
    assert_answers(*case)


@pytest.mark.parametrize(("unit", "far"), [(1e-34, 1e300), (1e-150, 1e150), (1e-300, 1e10), (1e-3, 1e300)])
def test_distance_of_a_far_query_from_tiny_data_is_its_length(unit: float, far: float) -> None:
    Y = unit * np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.5, 0.2]])
    X = far * np.array([[0.6, 0.8], [-1.0, 0.0]])
    for scale in (None, "auto"):
        model = DeepKAHM(n_components=2, n_layers=2, scale=scale).fit(Y)
        np.testing.assert_allclose(model.distance(X), [far, far], rtol=1e-9)


def test_single_precision_query_far_from_tiny_data_has_a_finite_distance() -> None:
    Y = np.float32([[1e-36, 0.0], [0.0, 1e-36], [1e-36, 1e-36]])
    distances = DeepKAHM(n_components=2, n_layers=2).fit(Y).distance(np.float32([[512.0, 0.0], [3e37, 0.0]]))
    np.testing.assert_allclose(distances, [512.0, 3e37], rtol=1e-5)
