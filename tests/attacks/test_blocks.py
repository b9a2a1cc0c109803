"""The noise of every block of every release has the declared law, and the declared noise is what was claimed.

Nothing is seeded: seeds would take the path that users take out of the test. An honest release is
contradicted with a probability of at most 1e-8, all releases together with one below 1e-6.
"""

import ast
import importlib
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.stats import binom
from tests.test_proofs import releasing
from tests.tiers import later

import onefold
from attacks import blocks
from attacks.block_releases import block_releases, tapped
from attacks.blocks import Block, BlockRelease, contradictions
from attacks.release_targets import all_targets
from onefold.privacy import mechanisms, samplers
from onefold.privacy.moments import _release

RELEASES = block_releases()
SOURCE = Path(onefold.__file__).parent


# The same code with another unit, other neighbours or more rows: before a merge.
VARIANTS = {
    *(name for name in RELEASES if name.endswith((", replace", ", many rows", ", entry"))),
    "moments, pooled",
    "regression, schema",
    "regression, person",
    "Gaussian, person",
    "release_bounded",
    "sum by a schema",
    "sum of moments",
    "site",
    "fabricator of moments",
    "moments, centre",  # which whitening has too
    "moments, pooled, person",
}


@pytest.mark.parametrize("name", later(RELEASES, lambda name: name not in VARIANTS))
def test_every_block_has_the_noise_it_declares_and_the_claim_needs(name: str) -> None:
    assert contradictions(RELEASES[name]()) == []


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", RELEASES)
def test_many_releases_show_nothing_else(name: str) -> None:
    release = RELEASES[name]()
    assert contradictions(release, max(2000, release.n_draws)) == []


def test_all_releases_together_give_few_false_alarms() -> None:
    assert len(RELEASES) * blocks.FALSE_ALARM <= 1e-6


# --- nothing is left out -----------------------------------------------------------------------------------

DRAWS = ("bernoulli", "byte_stream", "discrete_laplace", "rounded_gaussian")
# Places that draw and release nothing under a claim.
NO_RELEASE = {
    "privacy/persons.py:limit_rows": "which rows of a person count",
    "privacy/mechanisms/mechanism.py:sample": "noise without data, for whoever wants to look at it",
    "release/choosing.py:draw": "simulated noise of a figure",
    "release/releases.py:release_utility_preserving": "its guarantee is void",
}


def places_that_draw() -> Iterator[str]:
    """Every function of the library that calls a sampler, or asks for random bytes."""
    for path in sorted(SOURCE.rglob("*.py")):
        if path != Path(samplers.__file__):
            names = functions_that_draw(ast.parse(path.read_text(encoding="utf-8")), "the module")
            yield from (f"{path.relative_to(SOURCE)}:{name}" for name in names)


def functions_that_draw(tree: ast.AST, inside: str) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if called in DRAWS:
                yield inside
        yield from functions_that_draw(node, getattr(node, "name", inside) if _is_function(node) else inside)


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


@pytest.mark.merge
def test_every_place_that_draws_noise_is_drawn_from_here() -> None:
    places = set(places_that_draw())
    assert set(NO_RELEASE) <= places
    seen: set[str] = set()

    def noting(original: Any) -> Any:
        def wrapped(*given: Any, **options: Any) -> Any:
            frame: Any = sys._getframe(1)
            while frame.f_code.co_name.startswith("<"):  # a comprehension is part of its function
                frame = frame.f_back
            seen.add(f"{Path(frame.f_code.co_filename).relative_to(SOURCE)}:{frame.f_code.co_name}")
            return original(*given, **options)

        return wrapped

    with ExitStack() as stack:
        for file in {place.partition(":")[0] for place in places}:
            module = importlib.import_module("onefold." + file.removesuffix(".py").replace("/", "."))
            for name in DRAWS:
                if hasattr(module, name):
                    stack.enter_context(mock.patch.object(module, name, noting(getattr(module, name))))
        for make in RELEASES.values():
            make().draw(0)
    assert places - set(NO_RELEASE) - seen == set()


def test_every_block_and_every_mechanism_has_a_release() -> None:
    named = " ".join(
        block.name for name in RELEASES if "moments" in name for block in RELEASES[name]().blocks
    )
    words = {
        "centre": "centre",
        "number": "count",
        "total": "sum",
        "second": "second",
        "whitening": "whitening",
    }
    assert set(words) == set(_release.Blocks._fields)
    assert all(word in named for word in words.values())
    kinds = set(mechanisms.__all__) - {"Mechanism", "RandomisedLabels"}
    assert all(any(kind in name for name in RELEASES) for kind in kinds)


# Public names with a promise that is not theirs alone.
OF_OTHERS = {
    "EncryptedSum": "MomentSum, TableSum and SchemaSum are made of it",
    "SumContract": "the same",
    "TransferClassifier": "it joins sources that were released",
    "release_utility_preserving": "its guarantee is void",
}


def test_everything_with_a_guarantee_is_attacked() -> None:
    attacked = {make().name.partition(",")[0] for make in RELEASES.values()} | set(all_targets())
    assert {name.rpartition(".")[2] for name in releasing()} - set(OF_OTHERS) <= attacked


def test_a_release_with_a_block_more_than_it_names_is_contradicted() -> None:
    honest = RELEASES["moments"]()
    assert "other numbers" in contradictions(replace(honest, blocks=honest.blocks[:-1]), 2)[0]


# --- the test of the test ----------------------------------------------------------------------------------


def plain_release(factor: float = 1.0, shift: float = 0.0, **changes: Any) -> BlockRelease:
    """Two blocks of three numbers, with so many times their noise."""
    rng = np.random.default_rng()
    noise = 10.0 * np.array([1.0, 1.0, 1.0, 2.0, 2.0, 2.0])
    exact = np.zeros((2, 6))
    exact[1, 0] = 10.0 * blocks.needed_mu(1.0, 1e-5)
    release = BlockRelease(
        "plain",
        (1.0, 1e-5),
        (Block("first", 3, 10.0), Block("second", 3, 20.0)),
        lambda side: exact[side] + shift + factor * noise * rng.standard_normal(6),
        lambda numbers, side: exact[side],
        n_draws=400,
    )
    return replace(release, **changes)


@pytest.mark.merge
def test_false_alarms_are_as_rare_as_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "FALSE_ALARM", 0.5)
    alarms = sum(contradictions(plain_release(), 60) != [] for _ in range(400))
    # Half of the runs at most, and not so few that the stated share would be worth nothing: about a third.
    assert binom.ppf(1e-7, 400, 0.2) <= alarms <= binom.isf(1e-7, 400, 0.5)


@pytest.mark.parametrize("factor", [0.8, 0.9, 1.1, 1.25])
def test_a_tenth_less_or_more_noise_is_seen(factor: float) -> None:
    assert any("of the declared size" in words for words in contradictions(plain_release(factor), 2000))


def test_each_contradiction_is_seen_where_it_is() -> None:
    assert any("domain" in words for words in contradictions(plain_release(shift=8.0)))
    small = tuple(replace(block, scale=0.9 * block.scale) for block in plain_release().blocks)
    assert any("too small" in words for words in contradictions(plain_release(0.9, blocks=small)))
    large = tuple(replace(block, scale=1.1 * block.scale) for block in plain_release().blocks)
    assert any("too much" in words for words in contradictions(plain_release(1.1, blocks=large)))
    assert any("grid" in words for words in contradictions(plain_release(blocks=_on_a_grid())))
    rng = np.random.default_rng()
    flat = plain_release(draw=lambda side: plain_exact(side) + SIZES * rng.choice([-1.0, 1.0], 6))
    assert any("shape" in words for words in contradictions(flat))
    once = np.random.default_rng().standard_normal(6)
    same = contradictions(plain_release(draw=lambda side: plain_exact(side) + SIZES * once))
    assert any("share their noise" in words for words in same)

    def twice(side: int) -> Any:
        noise = rng.standard_normal(3)
        return plain_exact(side) + SIZES * np.concatenate([noise, noise])

    assert any("related" in words for words in contradictions(plain_release(draw=twice)))


SIZES = np.array([10.0, 10.0, 10.0, 20.0, 20.0, 20.0])


def plain_exact(side: int) -> Any:
    return np.array(plain_release().exact(np.zeros(6), side))


def _on_a_grid() -> tuple[Block, ...]:
    return tuple(replace(block, step=0.5) for block in plain_release().blocks)


def test_a_tap_sees_what_a_function_has_become(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "EXACT", 0.5)
    with tapped(blocks, "contradictions") as calls:
        assert blocks.contradictions(plain_release(), 10) == []
    assert len(calls) == 1
