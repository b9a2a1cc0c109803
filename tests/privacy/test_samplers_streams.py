"""Without a seed no two draws are alike: not in one process, not in two, not after a fork."""

import ast
import os
import ssl
import subprocess
import sys

import numpy as np
import pytest

from onefold.privacy import (
    AnalyticGaussian,
    BoundedFisherNoise,
    FisherGaussian,
    Laplace,
    OptimalNoise,
    RandomisedLabels,
    samplers,
)
from onefold.privacy.persons import limit_rows
from onefold.privacy.samplers import byte_stream

SAMPLERS = {
    "laplace": lambda: Laplace(1.0, sensitivity=1.0, sampler="float").sample(50),
    "laplace hardened": lambda: Laplace(1.0, sensitivity=1.0).sample(50),
    "optimal hardened": lambda: OptimalNoise(1.0, sensitivity=1.0).sample(50),
    "gaussian": lambda: AnalyticGaussian(1.0, sensitivity=1.0, sampler="float").sample(50),
    "gaussian hardened": lambda: AnalyticGaussian(1.0, sensitivity=1.0).sample(50),
    "labels": lambda: RandomisedLabels(0.1, 100).randomise(np.zeros(50, dtype=int)),
}
each_sampler = pytest.mark.parametrize("draw", SAMPLERS.values(), ids=SAMPLERS.keys())


@each_sampler
def test_two_calls_without_a_seed_differ(draw) -> None:
    assert not np.array_equal(draw(), draw())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@each_sampler
def test_parent_and_children_differ_after_a_fork(draw) -> None:
    draw()  # any state there is exists before the fork
    drawn = []
    for _ in range(2):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writing, np.asarray(draw(), dtype=np.float64).tobytes())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            drawn.append(pipe.read())
        os.waitpid(child, 0)
    drawn.append(np.asarray(draw(), dtype=np.float64).tobytes())
    assert {len(piece) for piece in drawn} == {400}
    assert len(set(drawn)) == 3


@pytest.mark.merge
def test_two_processes_differ_and_a_seed_agrees_between_them() -> None:
    script = (
        "from onefold.privacy import Laplace\n"
        "for seed in (None, 3):\n"
        "    print(Laplace(1.0, sensitivity=1.0).sample(4, random_state=seed).tolist())\n"
    )
    child = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    there = [ast.literal_eval(line) for line in child.stdout.splitlines()]
    here = [Laplace(1.0, sensitivity=1.0).sample(4, random_state=seed).tolist() for seed in (None, 3)]
    assert len(there[0]) == 4
    assert there[0] != here[0]
    assert there[1] == here[1]


def test_streams_are_uniform() -> None:
    for state in (None, 0):
        octets = byte_stream(state).octets(256 * 400)
        counts = np.bincount(octets, minlength=256)
        assert np.sum((counts - 400) ** 2 / 400) < 255 + 6 * np.sqrt(510)
        words = byte_stream(state).words(1000)
        assert np.unique(words).size == 1000
        assert 0.4 < np.mean(words >= 2**63) < 0.6


EVERY_NOISE = {
    **SAMPLERS,
    "fisher": lambda: FisherGaussian(1.0, sensitivity=1.0).sample((25, 2)).ravel(),
    "fisher float": lambda: FisherGaussian(1.0, sensitivity=1.0, sampler="float").sample((25, 2)).ravel(),
    "bounded": lambda: BoundedFisherNoise(1.0, (-9, 9), sensitivity=1.0).sample((25, 2)).ravel(),
    "bounded float": lambda: (
        BoundedFisherNoise(1.0, (-9, 9), sensitivity=1.0, sampler="float").sample((25, 2)).ravel()
    ),
    "rows of persons": lambda: limit_rows(np.zeros(100), 50),
}


@pytest.mark.parametrize("draw", EVERY_NOISE.values(), ids=EVERY_NOISE.keys())
def test_noise_without_a_seed_comes_from_the_cryptographic_generator_alone(draw, monkeypatch) -> None:
    asked = []

    def system_bytes(size: int) -> bytes:
        asked.append(size)
        return os.urandom(size)

    def refuse(*_: object) -> None:
        raise AssertionError("noise was drawn from numpy's generator")

    monkeypatch.setattr(samplers, "_system_bytes", system_bytes)
    for name in ("default_rng", "Generator", "SeedSequence", "PCG64", "random", "normal", "laplace"):
        monkeypatch.setattr(np.random, name, refuse)
    assert np.asarray(draw()).shape == (50,)
    assert sum(asked) >= 50  # a byte and more for each of fifty draws


def test_the_source_is_that_of_the_system() -> None:
    assert samplers._system_bytes in (os.urandom, ssl.RAND_bytes)
    assert byte_stream(None)._source is samplers._system_bytes
    assert len({samplers._system_bytes(16) for _ in range(100)}) == 100
