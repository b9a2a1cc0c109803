"""Mistakes planted one by one: the test that every honest release passes turns red for each of them.

Each is planted where it would be made, and is to be seen in the named releases, which pass without it
(``test_blocks.py``).
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest
from tests.tiers import later

from attacks.block_releases import MANY, block_releases
from attacks.blocks import BlockRelease, contradictions
from onefold.fabrication import counts, maps, synthesizer
from onefold.federated.secret import noise, rounds
from onefold.federated.secret.contract import SumContract
from onefold.privacy import Ball, Box, domains, samplers
from onefold.privacy.contract import EncodedBox
from onefold.privacy.mechanisms import entries, fisher, labels, mechanism
from onefold.privacy.mechanisms.entries import OptimalNoise
from onefold.privacy.moments import _estimator, _release

Patch = pytest.MonkeyPatch
Plant = Callable[[Patch], None]
BUGS: list[tuple[Plant, str]] = []
FAST: list[
    tuple[Plant, str]
] = []  # one of each kind of release; the others tell of the test, not of the code


def seen_in(*names: str, fast: bool = False) -> Callable[[Plant], Plant]:
    def planted(plant: Plant) -> Plant:
        BUGS.extend((plant, name) for name in names)
        if fast:
            FAST.append((plant, names[0]))
        return plant

    return planted


# --- counts of tables --------------------------------------------------------------------------------------


def changed_noise(patch: Patch, change: Callable[[Any, Any, Any, Any], Any]) -> None:
    """Let ``change(layout, raw, noisy, sigmas)`` have the last word on noisy counts."""
    original = counts.with_noise

    def with_noise(layout: Any, vector: Any, sigmas: Any, seed: Any) -> Any:
        return change(layout, vector, original(layout, vector, sigmas, seed), sigmas)

    patch.setattr(synthesizer, "with_noise", with_noise)


@seen_in("tables", "tables, replace", "tables, person", fast=True)
def last_of_ten_pair_tables_raw(patch: Patch) -> None:
    def change(layout: Any, raw: Any, noisy: Any, sigmas: Any) -> Any:
        if len(layout.pairs) == 10:
            list(layout.doubles(noisy))[-1][:] = list(layout.doubles(raw))[-1]
        return noisy

    changed_noise(patch, change)


@seen_in("tables", "tables, person")
def single_columns_with_seven_tenths_of_the_noise_where_there_are_four_classes(patch: Patch) -> None:
    original = counts.with_noise

    def with_noise(layout: Any, vector: Any, sigmas: Any, seed: Any) -> Any:
        factor = 0.7 if layout.n_classes == 4 else 1.0
        return original(layout, vector, (factor * sigmas[0], sigmas[1]), seed)

    patch.setattr(synthesizer, "with_noise", with_noise)


@seen_in("tables")
def empty_cells_stay_empty(patch: Patch) -> None:
    """What is rounded after the noise is rounded by the raw counts."""
    changed_noise(patch, lambda layout, raw, noisy, sigmas: np.where(raw == 0, 0, noisy))


@seen_in("tables, person", "site")
def rows_of_a_person_not_limited(patch: Patch) -> None:
    for module in (synthesizer, _estimator):
        patch.setattr(module, "limit_rows", lambda codes, most, seed: np.arange(len(codes)))
    patch.setattr(_release, "person_weights", lambda codes: np.ones(len(codes)))


@seen_in("tables, many rows")
def half_the_noise_for_more_than_3000_rows(patch: Patch) -> None:
    def change(layout: Any, raw: Any, noisy: Any, sigmas: Any) -> Any:
        rows = layout.singles(raw)[0].sum()
        return raw + (noisy - raw) // 2 if rows >= MANY else noisy

    changed_noise(patch, change)


@seen_in("tables, bins")
def fine_cells_raw(patch: Patch) -> None:
    changed_noise(patch, lambda layout, raw, noisy, sigmas: noisy if layout.pairs else raw)


# --- moments -----------------------------------------------------------------------------------------------


@seen_in("moments", "regression", "moments, many rows")
def last_row_not_clipped(patch: Patch) -> None:
    original = _estimator.shortened

    def shortened(rows: Any, radius: float) -> Any:
        made = original(rows, radius)
        made[-1] = rows[-1] / radius
        return made

    patch.setattr(_estimator, "shortened", shortened)
    patch.setattr(maps.RowMap, "apply", _all_but_the_last(maps.RowMap.apply))


def _all_but_the_last(original: Any) -> Any:
    def apply(self: Any, rows: Any) -> Any:
        made = np.array(original(self, rows))
        made[-1] *= 40.0
        return made

    return apply


@seen_in("moments, replace", "moments, pooled, replace")
def replaced_records_count_as_added_ones(patch: Patch) -> None:
    patch.setitem(_release.SENSITIVITIES, "replace", _release.SENSITIVITIES["add-remove"])


@seen_in("moments", "classifier", "source")
def noise_of_the_first_class_used_for_the_last(patch: Patch) -> None:
    original = _release.Noise.to_sums

    def to_sums(self: Any, sums: Any, sigma: float) -> Any:
        made = original(self, sums, sigma)
        if sums.ndim == 2 and len(sums) > 1:
            made[-1] = sums[-1] + (made[0] - sums[0])
        return made

    patch.setattr(_release.Noise, "to_sums", to_sums)


@seen_in("moments", "moments, person", "regression", "fabricator of moments", fast=True)
def second_moments_without_noise_beside_the_diagonal(patch: Patch) -> None:
    original = _release.Noise.to_matrices

    def to_matrices(self: Any, matrices: Any, sigma: float) -> Any:
        made = original(self, matrices, sigma)
        beside = ~np.eye(matrices.shape[-1], dtype=bool)
        made[:, beside] = matrices[:, beside]
        return made

    patch.setattr(_release.Noise, "to_matrices", to_matrices)


@seen_in("moments, whitening")
def whitening_from_a_raw_matrix(patch: Patch) -> None:
    def found(self: Any, rows: Any, noise: Any, sigma: float) -> Any:
        return _estimator.whitening_of(_estimator.exact_gram(noise.roots(self.embed(rows))), sigma)

    patch.setattr(_estimator.PrivateMoments, "_find_whitening", found)


@seen_in("moments, centre", "moments, whitening")
def centre_with_two_thirds_of_the_noise(patch: Patch) -> None:
    original = _estimator.PrivateMoments._find_centre

    def found(self: Any, rows: Any, size: float, noise: Any, sigma: float) -> Any:
        return original(self, rows, size, noise, sigma * 2 / 3)

    patch.setattr(_estimator.PrivateMoments, "_find_centre", found)


@seen_in("moments", "regression")
def sigma_for_the_variance(patch: Patch) -> None:
    """The budget is divided by shares instead of their roots."""

    def deviations(mu: float, shares: Any, neighbours: str) -> Any:
        bounds = _release.SENSITIVITIES[neighbours]
        pairs = zip(bounds, shares, strict=True)
        return _release.Blocks(*(bound / mu * math.sqrt(share) if share else 0.0 for bound, share in pairs))

    patch.setattr(_release, "deviations", deviations)


@seen_in("moments, found classes")
def width_of_labels_follows_the_longest(patch: Patch) -> None:
    patch.setattr(_release, "found_labels", lambda labels: labels)


@seen_in("regression, many rows", fast=True)
def outputs_not_clipped(patch: Patch) -> None:
    def scaled(self: Any, outputs: Any) -> Any:
        return np.asarray((outputs - self._middle) / self.half * math.sqrt(maps.OUTPUT_SHARE))

    patch.setattr(maps.PairMap, "scaled", scaled)


# --- rows, labels, counts ----------------------------------------------------------------------------------


@seen_in("Laplace, record", "AnalyticGaussian, person", "fabricated rows", fast=True)
def last_row_of_a_box_not_clipped(patch: Patch) -> None:
    original = Box.clip

    def clip(self: Any, X: Any) -> Any:
        made = np.array(original(self, X))
        made[-1] = X[-1]
        return made

    patch.setattr(Box, "clip", clip)


@seen_in("rows that no table has")
def one_hot_blocks_clipped_entry_by_entry(patch: Patch) -> None:
    patch.setattr(EncodedBox, "clip", lambda self, X: np.clip(X, 0.0, _encoded_ends(self)))


def _encoded_ends(domain: Any) -> Any:
    widths = [[math.sqrt(0.5)] * field.width if field.is_category else [1.0] for field in domain.features]
    return np.concatenate(widths)


@seen_in("ball")
def radius_for_diameter(patch: Patch) -> None:
    patch.setattr(Ball, "l2", property(lambda self: self.radius))


@seen_in("OptimalNoise, record", "AnalyticGaussian, record", "FisherGaussian", "release_iid", fast=True)
def two_thirds_of_the_noise(patch: Patch) -> None:
    for module in (fisher, entries):
        patch.setattr(module, "rounded_gaussian", _smaller(module.rounded_gaussian))
    patch.setattr(entries, "discrete_laplace", _smaller_steps(entries.discrete_laplace))


def _smaller(original: Any) -> Any:
    return lambda stream, sigma, size: original(stream, sigma * 2 / 3, size)


def _smaller_steps(original: Any) -> Any:
    return lambda stream, table, size: original(stream, table, size) * 2 // 3


@seen_in("Laplace, entry", "OptimalNoise, person")
def noise_without_a_sign(patch: Patch) -> None:
    original = OptimalNoise._draw_steps
    patch.setattr(
        OptimalNoise, "_draw_steps", lambda self, size, stream: np.abs(original(self, size, stream))
    )


@seen_in("rows, many")
def half_the_noise_after_the_first_3000_rows(patch: Patch) -> None:
    original = OptimalNoise._draw_steps

    def drawn(self: Any, size: int, stream: Any) -> Any:
        made = original(self, size, stream)
        made[3000 * 5 :] //= 2
        return made

    patch.setattr(OptimalNoise, "_draw_steps", drawn)


@seen_in("encoded rows")
def noise_of_one_column_for_all(patch: Patch) -> None:
    original = OptimalNoise._noisy

    def noisy(self: Any, values: Any, random_state: Any) -> Any:
        made = original(self, values, random_state)
        clipped = self.domain.clip(values)
        return clipped + (made - clipped)[:, :1]

    patch.setattr(OptimalNoise, "_noisy", noisy)


@seen_in("labels", "labels of fabricated rows", fast=True)
def labels_with_twice_the_epsilon(patch: Patch) -> None:
    original = labels.keep_probability
    patch.setattr(labels, "keep_probability", lambda epsilon, n: original(2 * epsilon, n))


@seen_in("rows outside", fast=True)
def number_outside_with_twice_the_epsilon(patch: Patch) -> None:
    original = domains.laplace_table
    patch.setattr(domains, "laplace_table", lambda rate: original(2 * rate))


@seen_in("tables", "moments", "AnalyticGaussian, record", "labels", "rows outside")
def seeded_generator(patch: Patch) -> None:
    for module in (mechanism, fisher, labels, _release, counts, domains, noise):
        patch.setattr(module, "byte_stream", lambda random_state: samplers.byte_stream(0))


# --- sums of sites -----------------------------------------------------------------------------------------


@seen_in("sum of tables", fast=True)
def share_of_one_site_missing(patch: Patch) -> None:
    original, calls = rounds.draw_shares, count()

    def draw_shares(blocks: Any, n_adding: int, random_state: Any = None) -> Any:
        made = original(blocks, n_adding, random_state)
        return made * (next(calls) % 4 > 0)

    patch.setattr(rounds, "draw_shares", draw_shares)


@seen_in("sum of tables")
def shares_for_sites_that_all_are_honest(patch: Patch) -> None:
    patch.setattr(SumContract, "least_adding", property(lambda self: len(self.sites)))


@seen_in("sum of moments")
def matrices_with_the_noise_of_the_diagonal_halved(patch: Patch) -> None:
    original = noise.SumBlock.shares

    def shares(self: Any, n_adding: int) -> Any:
        made = original(self, n_adding)
        return ((made[0][0] / 2, made[0][1]), made[1]) if self.triangle else made

    patch.setattr(noise.SumBlock, "shares", shares)


# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plant", "name"),
    later(BUGS, FAST),
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_a_planted_bug_contradicts_the_release(monkeypatch: Patch, plant: Plant, name: str) -> None:
    plant(monkeypatch)
    assert contradictions(block_releases()[name]()) != []


def test_at_least_fourteen_bugs_are_planted() -> None:
    assert len({plant for plant, _ in BUGS}) >= 14
    assert {name for _, name in BUGS} <= set(block_releases())


@pytest.mark.merge
def test_a_block_without_noise_is_contradicted_wherever_it_is() -> None:
    """Every block of a small release of each kind, raw in turn."""
    for name in ("tables", "moments", "regression"):
        honest: BlockRelease = block_releases()[name]()
        start = 0
        drawn = [honest.draw(side % 2) for side in range(30)]
        for block in honest.blocks:
            entries = slice(start, start := start + block.length)
            releases = [np.array(numbers, dtype=np.float64) for numbers in drawn]
            for side, numbers in enumerate(releases):
                numbers[entries] = honest.exact(numbers, side % 2)[entries]
            bad = replace(honest, draw=partial(next_of, iter(releases)), scales=None)
            assert any(words.startswith(block.name) for words in contradictions(bad, 30))


def next_of(releases: Iterator[Any], side: int) -> Any:
    return next(releases)
