"""Rules that can be read, and the rules that acted on a query."""

import numpy as np
import pandas as pd
import pytest

from onefold import DeepFuzzyAutoencoder, DeepFuzzyModel, WideFuzzyAutoencoder
from onefold.models.fuzzy import FuzzyRules

pytestmark = pytest.mark.filterwarnings("error", "ignore::onefold.exceptions.DataScaleWarning")


def shares(rules: FuzzyRules, x: np.ndarray) -> np.ndarray:
    """003 eq. 2.110 from what a reader sees."""
    degrees = np.exp(-0.5 * (((x - rules.centres) / rules.widths) ** 2).sum(axis=1))
    return degrees / degrees.sum()


@pytest.mark.parametrize("size", [1.0, 1e-200, 1e150])
def test_rules_of_a_model_reproduce_its_output(size: float, rng: np.random.Generator) -> None:
    X, Y = rng.normal(size=(60, 3)) + 5.0, rng.normal(size=(60, 2))
    model = DeepFuzzyModel(width=0.4).fit(size * X, size * Y)
    (rules,) = model.rules_
    assert len(rules) == model.n_rules_ == len(rules.centres) == len(rules.consequents)
    found = model.predict(size * X) / size
    farthest = np.linalg.norm(found - Y.mean(axis=0), axis=1).max()
    readable = FuzzyRules(rules.centres / size, rules.widths / size, rules.consequents / size)
    for x, output in zip(X, found, strict=True):
        expected = shares(readable, x) @ readable.consequents
        assert np.linalg.norm(expected - Y.mean(axis=0)) <= farthest * (1 + 1e-9)
        np.testing.assert_allclose(output, expected, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [1.0, 1e-200, 1e150])
def test_rules_of_an_autoencoder_reproduce_its_images(size: float, rng: np.random.Generator) -> None:
    Y = size * (rng.normal(size=(60, 6)) + 3.0)
    model = DeepFuzzyAutoencoder(4, 1, scale="auto").fit(Y)
    rules = model.rules_[0]
    stack = model.pool_.stacks[0]
    for y in Y[:5]:
        seen = y @ stack.encoder
        weights = shares(FuzzyRules(rules.centres / size, rules.widths / size, rules.centres), seen / size)
        image = weights @ rules.consequents
        if np.linalg.norm(image / size - Y.mean(axis=0) / size) < stack.layers[0].radius:
            np.testing.assert_allclose(model.transform([y])[0] / size, image / size, atol=1e-6)


def test_explanation_names_the_strongest_rules_and_the_output(rng: np.random.Generator) -> None:
    X = pd.DataFrame(rng.normal(size=(80, 3)), columns=["age", "weight", "noise"])
    X["constant"] = 4.0
    y = X["age"] + 2.0 * X["weight"]
    model = DeepFuzzyModel(width=0.15).fit(X, y)
    x = X.iloc[7]
    found = model.explain(x, n_rules=2)
    all_shares = shares(model.rules_[0], x.to_numpy())
    np.testing.assert_array_equal(found.rules, np.argsort(-all_shares)[:2])
    np.testing.assert_allclose(found.shares, np.sort(all_shares)[::-1][:2])
    assert found.output == pytest.approx(model.predict(X.iloc[[7]]))
    np.testing.assert_allclose(
        found.answers[:, 0], model.predict(pd.DataFrame(found.centres, columns=X.columns))
    )
    text = str(found)
    assert f"rule {found.rules[0]} ({found.shares[0]:.1%})" in text
    assert "weight is " in text
    assert f"y = {found.output[0]:.4g}" in text
    assert len(text.splitlines()) == 3
    assert model.rules_[0].widths[3] == np.inf
    np.testing.assert_array_equal(found.reasons[:, 3], 0.0)
    gaps = 0.5 * ((x.to_numpy() - model.rules_[0].centres) / model.rules_[0].widths) ** 2
    np.testing.assert_allclose(found.reasons, gaps.mean(axis=0) - gaps[found.rules], rtol=1e-6, atol=1e-9)


def test_narrow_sets_have_consequents_like_the_samples(rng: np.random.Generator) -> None:
    Y = rng.random((200, 3)) @ rng.random((3, 30))
    wide, narrow = (DeepFuzzyAutoencoder(3, 1, width=width).fit(Y) for width in (1.0, 0.05))
    assert np.abs(wide.rules_[0].consequents).max() > 10.0 * np.abs(Y).max()
    assert np.abs(narrow.rules_[0].consequents).max() < 2.0 * np.abs(Y).max()
    assert narrow.explain(Y[0]).shares.sum() > 0.5 > wide.explain(Y[0]).shares.sum()


def test_explanation_is_that_of_the_nearest_branch(rng: np.random.Generator) -> None:
    Y = np.vstack([rng.normal(size=(20, 5)) + 6.0 * shift for shift in range(3)])
    model = WideFuzzyAutoencoder(3, 2, branch_size=20, partition="contiguous").fit(Y)
    for branch, y in enumerate(Y[[3, 23, 43]]):
        found = model.explain(y)
        np.testing.assert_array_equal(found.rules, model.branches_[branch].explain(y).rules)
        np.testing.assert_allclose(found.output, model.transform([y])[0], rtol=1e-9)
    assert "x4 is" in str(model.explain(Y[0], n_rules=20)), "rules speak of the columns of the samples"


def test_rules_of_an_autoencoder_are_told_as_rows_of_its_columns(rng: np.random.Generator) -> None:
    X = pd.DataFrame(rng.normal(size=(120, 2)) @ rng.normal(size=(2, 4)), columns=["age", "bmi", "a", "b"])
    model = DeepFuzzyAutoencoder(2, 1, width=0.15).fit(X)
    found = model.explain(X.iloc[3], n_rules=2)
    assert found.input_names == found.output_names == ("age", "bmi", "a", "b")
    np.testing.assert_allclose(found.inputs, X.iloc[3], rtol=1e-12)
    np.testing.assert_allclose(found.output, model.transform(X.iloc[[3]])[0], rtol=1e-9)
    # The row that the strongest rule stands for is near the row that it acts on, nearer than most rows are.
    gaps = np.linalg.norm(X.to_numpy() - found.centres[0], axis=1)
    assert np.mean(gaps < gaps[3]) < 0.2
    assert "then" not in str(found)


def test_few_narrow_rules_can_be_read(rng: np.random.Generator) -> None:
    X = pd.DataFrame(rng.uniform(size=(200, 3)), columns=["age", "bmi", "noise"])
    y = np.where(X["bmi"] > 0.5, 100.0, 0.0)
    few = DeepFuzzyModel(max_rules=7, width="narrow").fit(X, y)
    assert few.n_rules_ == 7
    assert few.width_ in (0.25, 0.18, 0.12)
    shares_of_two = [few.explain(row, n_rules=2).shares.sum() for row in X.to_numpy()[:30]]
    assert np.mean(shares_of_two) > 0.6
    consequents = few.rules_[0].consequents
    assert consequents.min() > -100.0, "each rule makes sense alone"
    assert consequents.max() < 200.0
    lines = few.describe(n_terms=2).splitlines()
    assert len(lines) == 7
    assert any("bmi is high" in line for line in lines)
    assert any("bmi is low" in line for line in lines)
    told = few.predict(pd.DataFrame(few.rules_[0].centres, columns=X.columns))
    for line, value in zip(lines, told, strict=True):
        assert line.endswith(f"then y is about {value:.4g}")


def test_explanation_of_a_far_input_is_finite(rng: np.random.Generator) -> None:
    one = DeepFuzzyAutoencoder().fit([[1.0, 2.0]])
    assert str(one.explain([5.0, 5.0])).startswith("1 of 1 rules has 100.0% of the say; the answer: x0 = 1")
    model = DeepFuzzyModel(width=0.05).fit(rng.normal(size=(30, 2)), rng.normal(size=(30, 2)))
    far = model.explain([1e300, -1e300], n_rules=50)
    assert np.isfinite(far.output).all()
    assert far.shares.sum() == pytest.approx(1.0)
    assert len(far.rules) == 15
    assert "nan" not in str(far)
    with pytest.raises(ValueError, match="n_rules"):
        model.explain([0.0, 0.0], n_rules=0)
    with pytest.raises(ValueError, match="features"):
        model.explain([0.0, 0.0, 0.0])
