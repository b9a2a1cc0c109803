"""Fitting, asking and loading give the same bits for any number of BLAS threads and workers."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from onefold import (
    KAHM,
    AutoencoderClassifier,
    DeepFuzzyAutoencoder,
    DeepFuzzyModel,
    DeepKAHM,
    DeepMembershipAutoencoder,
    FoldingClassifier,
    MembershipMapping,
    WideFuzzyAutoencoder,
    WideKAHM,
    WideMembershipAutoencoder,
    io,
)

MODELS = {
    "kahm": KAHM(8),
    "deep": DeepKAHM(8, 2),
    "wide": WideKAHM(8, 2, branch_size=150, random_state=0),
    "membership": DeepMembershipAutoencoder(8, 2),
    "wide membership": WideMembershipAutoencoder(8, 2, branch_size=150, random_state=0),
    "fuzzy": DeepFuzzyAutoencoder(8, 2),
    "wide fuzzy": WideFuzzyAutoencoder(8, 2, branch_size=200, random_state=0),
    "classifier": AutoencoderClassifier(WideKAHM(8, 2, branch_size=150, random_state=0)),
    "small machines": FoldingClassifier(8, 20),
    "mapping": MembershipMapping(),
    "rules": DeepFuzzyModel(),
}
ROWS = np.random.default_rng(0).normal(size=(400, 200)) + np.arange(400)[:, None] % 2
LABELS = np.arange(400) % 2


def answers(model, rows) -> np.ndarray:
    ask = next(name for name in ("distances", "distance", "predict") if hasattr(model, name))
    return getattr(model, ask)(rows)


def fitted_with(name: str, threads: int):
    with threadpool_limits(threads, user_api="blas"):
        return MODELS[name].fit(ROWS, ROWS[:, :3] if name in ("mapping", "rules") else LABELS)


@pytest.mark.exact
@pytest.mark.parametrize("name", MODELS)
def test_answers_do_not_depend_on_the_number_of_threads(name: str) -> None:
    expected = answers(fitted_with(name, 1), ROWS)
    model = fitted_with(name, 3)
    content = io.to_bytes(model)
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            np.testing.assert_array_equal(answers(model, ROWS), expected)
            np.testing.assert_array_equal(answers(io.from_bytes(content), ROWS), expected)


@pytest.mark.exact
@pytest.mark.parametrize("name", ["wide", "classifier", "small machines"])
def test_answers_do_not_depend_on_n_jobs(name: str) -> None:
    expected = answers(MODELS[name].fit(ROWS, LABELS), ROWS[:50])
    for n_jobs in (1, 2, 5):
        found = answers(MODELS[name].set_params(n_jobs=n_jobs).fit(ROWS, LABELS), ROWS[:50])
        np.testing.assert_array_equal(found, expected)
