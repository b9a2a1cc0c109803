"""Which regularisation machines have: a number without a unit, the documents' fixed point, or the user's."""

import numpy as np
import pytest

from onefold import KAHM, DeepKAHM, FoldingClassifier, WideKAHM
from onefold.exceptions import InvalidInputError

pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")


@pytest.mark.parametrize("N", [30, 150])
def test_auto_is_one_fifth_without_a_scale_and_the_documents_rule_with_one(N, rng) -> None:
    X = rng.normal(size=(N, 6)) + 2.0
    assert KAHM().fit(X).lambda_ == 0.2
    assert DeepKAHM(n_layers=3).fit(100.0 * X).lambdas_ == [0.2] * 3
    for scale in ("auto", 1.0, 0.1):
        documented = KAHM(scale=scale, regularisation="documented").fit(X)
        assert KAHM(scale=scale).fit(X).lambda_ == documented.lambda_
        assert documented.lambda_ != 0.2


@pytest.mark.parametrize("scale", [None, "auto", 3.0])
def test_number_is_taken_whatever_the_scale(scale, rng) -> None:
    X, y = rng.normal(size=(40, 4)), np.arange(40) % 2
    assert KAHM(scale=scale, regularisation=0.7).fit(X).lambda_ == 0.7
    model = FoldingClassifier(scale=scale, regularisation=0.7).fit(X, y)
    assert {float(layer.lambdas.max()) for stack in model.pool_.stacks for layer in stack.layers} == {0.7}


@pytest.mark.parametrize("wrong", [0.0, -1.0, np.inf, "fixed", None])
def test_other_regularisations_are_refused(wrong, rng) -> None:
    for model in (KAHM(), WideKAHM(), FoldingClassifier()):
        with pytest.raises(InvalidInputError, match="regularisation must be"):
            model.set_params(regularisation=wrong).fit(rng.normal(size=(9, 2)), np.arange(9) % 2)


def test_branches_are_machines_that_fit_to_the_same_numbers(rng) -> None:
    X = rng.normal(size=(40, 5))
    for scale in (None, "auto"):
        wide = WideKAHM(branch_size=20, partition="contiguous", scale=scale).fit(X)
        branch = wide.branches_[1]
        again = type(branch)(**branch.get_params()).fit(X[20:])
        np.testing.assert_allclose(again.distance(X[:9]), branch.distance(X[:9]), rtol=1e-9)
