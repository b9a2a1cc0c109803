"""The audit of one classifier in one call."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

from onefold import FoldingClassifier
from onefold.audit import audit_membership, distance_attack, membership_inference_score
from onefold.exceptions import InvalidInputError

DATA = load_digits()
X, Y = DATA.data[:500] / 16, DATA.target[:500]
MODEL = FoldingClassifier().fit(X[:300], Y[:300])


NEAREST = "distance to the nearest class"


def test_audit_equals_its_parts_on_the_same_batches() -> None:
    audit = audit_membership(MODEL, X[:300], X[300:], Y[:300], Y[300:], confidence=0.9)
    # Exact only for the same batches: BLAS rounds a row differently in a batch of another shape.
    near = MODEL.distances(X[:300]).min(axis=1), MODEL.distances(X[300:]).min(axis=1)
    assert audit.attacks[NEAREST].auc == distance_attack(*near).auc
    assert audit.attacks[NEAREST].auc > 0.9
    assert audit.score == membership_inference_score(*near)
    one_batch = MODEL.distances(X).min(axis=1)
    np.testing.assert_allclose(np.concatenate(audit.answers[NEAREST]), one_batch, rtol=1e-9)
    assert audit.accuracies == (MODEL.score(X[:300], Y[:300]), MODEL.score(X[300:], Y[300:]))
    assert audit.n_shared == 0
    names = [name for name, _, _ in audit.rows()]
    assert len(names) == len(set(names)) == len(audit.attacks) + 5


def test_audit_matches_text_labels_with_numbers() -> None:
    named = FoldingClassifier().fit(X[:300], Y[:300].astype(str))
    one = audit_membership(named, X[:300], X[300:], Y[:300], Y[300:])
    two = audit_membership(MODEL, X[:300], X[300:], Y[:300].astype(str), Y[300:].astype(str))
    own = "distance to the own class"
    assert one.attacks[own].auc == two.attacks[own].auc
    assert one.accuracies == two.accuracies


def test_audit_finds_fewer_members_behind_noisy_training_rows() -> None:
    rng = np.random.default_rng(0)
    blurred = FoldingClassifier(scale="auto").fit(X[:300] + rng.laplace(size=(300, 64)), Y[:300])
    clear, hidden = (audit_membership(model, X[:300], X[300:]) for model in (MODEL, blurred))
    assert hidden.attacks[NEAREST].auc < 0.7 < clear.attacks[NEAREST].auc
    assert hidden.score is not None
    assert clear.score is not None
    assert hidden.score < clear.score


@pytest.mark.parametrize(
    "rows",
    [
        (X[:4], X[300:]),
        (X[:300], X[300:], Y[:300]),
        (X[:300], X[300:], Y[:300], Y[300:] + 100),
        (X[:300], X[300:], Y[:299], Y[300:]),
        (X[:300], np.full((9, 64), np.nan)),
        (X[:300], X[300:, :9]),
    ],
)
def test_audit_refuses_bad_input_in_one_line(rows: tuple) -> None:
    with pytest.raises(InvalidInputError) as caught:
        audit_membership(MODEL, *rows)
    assert "\n" not in str(caught.value)


def test_audit_takes_what_a_classifier_answers() -> None:
    linear = LogisticRegression(max_iter=20, tol=0.1).fit(X[:300], Y[:300])
    assert list(audit_membership(linear, X[:300], X[300:]).attacks) == ["largest probability"]
    bare = LinearSVC().fit(X[:300], Y[:300])
    assert list(audit_membership(bare, X[:300], X[300:], Y[:300], Y[300:]).attacks) == ["predicted class"]
    with pytest.raises(InvalidInputError, match="LinearSVC has no distances and no probabilities"):
        audit_membership(bare, X[:300], X[300:])
