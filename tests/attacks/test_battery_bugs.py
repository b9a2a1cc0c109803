"""Mistakes that the battery must find, planted one by one into the code that makes releases."""

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tests.tiers import first_of, later

from attacks.release_targets import all_targets
from onefold.audit.battery import attack
from onefold.fabrication import TableSynthesizer, counts, synthesizer
from onefold.fabrication.fabricator import Fabricator
from onefold.privacy import Box, OptimalNoise, samplers
from onefold.privacy.domains import Ball
from onefold.privacy.mechanisms import entries, fisher, labels, mechanism
from onefold.privacy.mechanisms.fisher import RowNoise
from onefold.privacy.mechanisms.mechanism import Mechanism
from onefold.privacy.moments import _release as moments

FEW, FEWER = 2000, 300  # releases; fewer of what takes long and is seen at once
ENTRY, RECORD, PERSON = 0, 1, 2  # places of the targets of a mechanism
Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
STREAM_USERS = (mechanism, fisher, labels, moments, counts)


def caught(name: str, place: int = ENTRY, n_releases: int = FEW) -> set[str]:
    """The looks that contradict the claim."""
    return {
        finding.check for finding in attack(all_targets()[name][place](), n_releases) if not finding.passed
    }


def no_noise_on_the_last_column(patch: Patch) -> None:
    original = Mechanism._noisy

    def noisy(self: Any, values: Any, random_state: Any) -> Any:
        made = original(self, values, random_state)
        made[:, -1] = self.domain.clip(values)[:, -1]
        return made

    patch.setattr(Mechanism, "_noisy", noisy)


def half_the_laplace_scale(patch: Patch) -> None:
    def table(self: Any) -> Any:
        return entries.laplace_table(
            2 * Fraction(self.epsilon) / self._lattice.steps, Fraction(self.untouched_share)
        )

    patch.setattr(OptimalNoise, "_table", property(table))


def diagonal_of_a_box_short_by_root_two(patch: Patch) -> None:
    original = Box.l2.fget
    patch.setattr(Box, "l2", property(lambda self: original(self) / math.sqrt(2)))


def one_noise_row_for_all_rows(patch: Patch) -> None:
    original = OptimalNoise._draw_steps
    patch.setattr(
        OptimalNoise, "_draw_steps", lambda self, size, stream: np.resize(original(self, 3, stream), size)
    )


def one_noise_per_row_for_all_columns(patch: Patch) -> None:
    original = OptimalNoise._draw_steps
    patch.setattr(
        OptimalNoise,
        "_draw_steps",
        lambda self, size, stream: np.repeat(original(self, size // 3, stream), 3),
    )


def seed_0_for_every_call(patch: Patch) -> None:
    for module in STREAM_USERS:
        patch.setattr(module, "byte_stream", lambda random_state: samplers.byte_stream(0))


def seed_0_for_every_process(patch: Patch) -> None:
    patch.setattr(samplers, "_system_bytes", np.random.default_rng(0).bytes)


def clipping_forgotten(patch: Patch) -> None:
    patch.setattr(Box, "clip", lambda self, X: X)
    patch.setattr(Ball, "clip", lambda self, X: X)
    patch.setattr("onefold.privacy.moments._estimator.shortened", lambda rows, radius: rows / radius)


def honest_stopping_that_looks_at_raw_rows(patch: Patch) -> None:
    original = Fabricator._smooth

    def peeking(self: Any, *args: Any) -> Any:
        self.stopping = "documented"
        try:
            return original(self, *args)
        finally:
            self.stopping = "honest"

    patch.setattr(Fabricator, "_smooth", peeking)


def no_noise_on_counts(patch: Patch) -> None:
    patch.setattr(moments.Noise, "to_counts", lambda self, counts, sigma: counts)


def same_noise_for_every_class(patch: Patch) -> None:
    original = moments.Noise.to_sums
    patch.setattr(
        moments.Noise,
        "to_sums",
        lambda self, sums, sigma: sums + original(self, np.zeros(sums.shape[-1]), sigma),
    )


def half_the_noise_on_the_diagonal_of_second_moments(patch: Patch) -> None:
    original = moments.Noise.to_matrices

    def to_matrices(self: Any, matrices: Any, sigma: float) -> Any:
        noise = original(self, np.zeros(matrices.shape), sigma)
        diagonal = np.arange(matrices.shape[-1])
        noise[:, diagonal, diagonal] /= 2
        return matrices + noise

    patch.setattr(moments.Noise, "to_matrices", to_matrices)


def second_moment_with_the_noise_of_all_that_sums_and_it_share(patch: Patch) -> None:
    original = moments.divided_anew
    patch.setattr(
        moments,
        "divided_anew",
        lambda shares, part: original(shares, part)._replace(second=shares.total + shares.second),
    )


def sums_with_the_noise_of_all_that_a_second_moment_and_they_share(patch: Patch) -> None:
    original = moments.divided_anew
    patch.setattr(
        moments,
        "divided_anew",
        lambda shares, part: original(shares, part)._replace(total=1.2 * (shares.total + shares.second)),
    )


def labels_kept_with_twice_the_epsilon(patch: Patch) -> None:
    original = labels.keep_probability
    patch.setattr(labels, "keep_probability", lambda epsilon, n: original(2 * epsilon, n))


def replaced_records_move_sums_by_one(patch: Patch) -> None:
    patch.setitem(moments.SENSITIVITIES, "replace", moments.SENSITIVITIES["replace"]._replace(total=1.0))


def fisher_noise_with_the_wrong_exponent(patch: Patch) -> None:
    def scales(self: Any, n_features: int) -> Any:
        return np.sqrt(self.weights.powers(-1.0, n_features)) * math.pow(self.lam, -0.25)

    patch.setattr(RowNoise, "_free_scales", scales)


def records_of_a_person_counted_one_by_one(patch: Patch) -> None:
    patch.setattr(moments, "person_weights", lambda codes: np.ones(len(codes)))


def half_the_noise_on_pairs(patch: Patch) -> None:
    original = counts.with_noise
    patch.setattr(
        synthesizer,
        "with_noise",
        lambda layout, vector, sigmas, seed: original(layout, vector, (sigmas[0], sigmas[1] / 2), seed),
    )


def raw_number_of_synthetic_rows(patch: Patch) -> None:
    original = TableSynthesizer.fit

    def fit(self: Any, X: Any, person: Any = None) -> Any:
        original(self, X, person)
        self.n_rows_ = len(next(iter(X.values())))
        return self

    patch.setattr(TableSynthesizer, "fit", fit)


def rows_of_a_person_not_limited(patch: Patch) -> None:
    patch.setattr(synthesizer, "limit_rows", lambda codes, most, seed: np.arange(len(codes)))


def noise_for_one_row_of_a_person(patch: Patch) -> None:
    original = counts.with_noise
    patch.setattr(
        synthesizer,
        "with_noise",
        lambda layout, vector, sigmas, seed: original(layout, vector, (sigmas[0] / 3, sigmas[1] / 3), seed),
    )


# What is planted, and where it must be seen, by which look.
BUGS: list[tuple[Plant, str, int, str]] = [
    (no_noise_on_the_last_column, "Laplace", ENTRY, "noise"),
    (no_noise_on_the_last_column, "AnalyticGaussian", RECORD, "likelihood ratio"),
    (no_noise_on_the_last_column, "LocalModel", ENTRY, "noise"),
    (half_the_laplace_scale, "Laplace", ENTRY, "likelihood ratio"),
    (half_the_laplace_scale, "Laplace", PERSON, "noise"),
    (diagonal_of_a_box_short_by_root_two, "AnalyticGaussian", RECORD, "noise"),
    (diagonal_of_a_box_short_by_root_two, "PrivateSource", PERSON, "noise"),
    (one_noise_row_for_all_rows, "Laplace", ENTRY, "independence"),
    (one_noise_row_for_all_rows, "Fabricator", RECORD, "independence"),
    (one_noise_per_row_for_all_columns, "Laplace", RECORD, "independence"),
    (one_noise_per_row_for_all_columns, "OptimalNoise", RECORD, "likelihood ratio"),
    *(
        (seed, name, 0, "independence")
        for seed in (seed_0_for_every_call, seed_0_for_every_process)
        for name in ("Laplace", "AnalyticGaussian", "FisherGaussian", "RandomisedLabels", "PrivateMoments")
    ),
    (clipping_forgotten, "Laplace", ENTRY, "likelihood ratio"),
    (clipping_forgotten, "FisherGaussian", RECORD, "noise"),
    (clipping_forgotten, "Fabricator", RECORD, "likelihood ratio"),
    (clipping_forgotten, "PrivateMoments", RECORD, "likelihood ratio"),
    (honest_stopping_that_looks_at_raw_rows, "Fabricator", ENTRY, "raw rows"),
    (no_noise_on_counts, "PrivateMoments", RECORD, "noise"),
    (no_noise_on_counts, "MomentFederation", 0, "likelihood ratio"),
    (same_noise_for_every_class, "PrivateMoments", RECORD, "independence"),
    (half_the_noise_on_the_diagonal_of_second_moments, "PrivateMoments", RECORD, "noise"),
    (second_moment_with_the_noise_of_all_that_sums_and_it_share, "PrivateMoments, pooled", 0, "noise"),
    (sums_with_the_noise_of_all_that_a_second_moment_and_they_share, "PrivateMoments, pooled", 2, "noise"),
    (no_noise_on_counts, "PrivateMoments, pooled", 0, "noise"),
    (records_of_a_person_counted_one_by_one, "PrivateMoments, pooled", 1, "noise"),
    (labels_kept_with_twice_the_epsilon, "RandomisedLabels", 0, "likelihood ratio"),
    (replaced_records_move_sums_by_one, "PrivateMoments", 3, "noise"),
    (fisher_noise_with_the_wrong_exponent, "FisherGaussian", RECORD, "noise"),
    (records_of_a_person_counted_one_by_one, "PrivateMoments", PERSON, "noise"),
    (half_the_noise_on_pairs, "TableSynthesizer", 0, "noise"),
    (half_the_noise_on_pairs, "TableSynthesizer", 2, "noise"),
    (raw_number_of_synthetic_rows, "TableSynthesizer", 3, "likelihood ratio"),
    (rows_of_a_person_not_limited, "TableSynthesizer", 1, "noise"),
    (noise_for_one_row_of_a_person, "TableSynthesizer", 1, "noise"),
    (seed_0_for_every_call, "TableSynthesizer", 0, "independence"),
]


@pytest.mark.parametrize(
    ("plant", "name", "place", "look"),
    later(BUGS, first_of(lambda bug: bug[3])),  # one for each look: the others tell of the attack, not of us
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_planted_bug_is_caught(monkeypatch: Patch, plant: Plant, name: str, place: int, look: str) -> None:
    plant(monkeypatch)
    assert look in caught(name, place, FEWER if plant is raw_number_of_synthetic_rows else FEW)


def test_twenty_kinds_of_bugs_are_planted() -> None:
    kinds = {
        plant.__name__.removesuffix("_for_every_call").removesuffix("_for_every_process")
        for plant, *_ in BUGS
    }
    assert len(kinds - {"records_of_a_person_counted_one_by_one"}) == 20


def test_type_that_depends_on_one_record_is_caught() -> None:
    # The neighbour with one long word makes the others' wider.
    honest = all_targets()["RandomisedLabels"][0]()
    leaky = replace(honest, schema=lambda side: {"width": np.array(["no", "a long word"][: 1 + side]).dtype})
    found = {finding.check: finding for finding in attack(leaky, 64)}
    assert not found["schema"].passed
    assert "width" in found["schema"].words
