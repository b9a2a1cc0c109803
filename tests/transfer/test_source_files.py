"""Sources in files: exact, without raw rows, and refused where something does not fit."""

import json

import numpy as np
import pytest

from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.transfer import PrivateSource
from reference.damage import refusals
from reference.sources import KINDS, made


@pytest.mark.parametrize("kind", KINDS)
def test_save_and_load_is_exact_and_keeps_the_guarantee(kind, rng, tmp_path) -> None:
    source, X, _ = made(kind, rng)
    source.save(tmp_path / "source")
    loaded = PrivateSource.load(tmp_path / "source")
    assert loaded.guarantee_ == source.guarantee_
    assert loaded.n_features_in_ == 6
    np.testing.assert_array_equal(loaded.classes_, source.classes_)
    np.testing.assert_array_equal(loaded.subspace_, source.subspace_)
    placed = source.encode(X)
    np.testing.assert_array_equal(
        loaded.description_.scores(loaded.encode(X)), source.description_.scores(placed)
    )
    np.testing.assert_array_equal(loaded.description_.image(placed, 1), source.description_.image(placed, 1))
    assert loaded.to_bytes() == source.to_bytes()


def stored_rows(source):
    """Every row that the artefact's machines are made of."""
    described = PrivateSource.from_bytes(source.to_bytes()).description_
    family = described.classifier.prototype()
    states = [family.stack_state(stack) for stack in described.classifier.pool_.stacks]
    return np.vstack([(state["centred"] + state["mean"][:, None]).reshape(-1, 6) for state in states])


def smallest_gap(rows, others):
    return float(np.linalg.norm(rows[:, None] - others[None], axis=2).min())


@pytest.mark.parametrize("kind", ["noise", "record", "fabricated"])
def test_no_raw_row_is_in_the_file(kind, rng) -> None:
    source, X, _ = made(kind, rng, n_rows=60)
    assert smallest_gap(stored_rows(source), X) > 0.02


def test_moments_hold_no_rows_at_all(rng) -> None:
    few, many = (len(made("moments", rng, n_rows=count)[0].to_bytes()) for count in (60, 6000))
    assert abs(few - many) < 100


def test_without_noise_the_raw_rows_are_in_the_file_and_the_guarantee_says_so(rng) -> None:
    source, X, _ = made("none", rng, n_rows=60)
    assert smallest_gap(stored_rows(source), X) < 1e-12
    assert not source.guarantee_.holds
    assert "no noise was added" in str(source.guarantee_)
    assert not np.isfinite(source.guarantee_.record[0])


@pytest.mark.parametrize("kind", ["noise", "moments"])
def test_damaged_files_are_refused(kind, rng, tmp_path) -> None:
    source, X, _ = made(kind, rng, n_rows=60)
    path = tmp_path / "s"
    source.save(path)

    def scores() -> np.ndarray:
        loaded = PrivateSource.load(path)
        return loaded.description_.scores(loaded.encode(X))

    places = np.concatenate([rng.integers(path.stat().st_size, size=60), np.arange(40)])
    whole, found = path.read_bytes(), refusals(path, places, scores)
    assert len(found) > 60
    assert not any("\n" in message for message in found)
    for length in (0, 10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            PrivateSource.load(path)
    with pytest.raises(InvalidInputError, match="no source at"):
        PrivateSource.load(tmp_path / "absent")


def repack(source, change):
    """The bytes of a source after a change of its description, with right checksums."""
    from onefold.transfer._archive import pack, unpack

    about, parts = unpack("private source", 1, source.to_bytes())
    change(about, parts)
    return pack("private source", 1, about, parts)


def better_promise(about, parts) -> None:
    about["guarantee"]["record"] = {"epsilon": 0.01, "delta": 1e-5}


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("moments", better_promise),
        ("moments", lambda about, parts: parts.pop("subspace")),
        ("moments", lambda about, parts: about.update(n_features=7)),
        ("moments", lambda about, parts: about.update(encoder={"class": "os", "parameters": {}})),
        ("noise", lambda about, parts: parts.update(means=parts["counts"])),
        ("noise", lambda about, parts: parts.pop("classifier")),
        ("noise", lambda about, parts: about.pop("guarantee")),
        ("noise", lambda about, parts: about.update(n_features="six")),
    ],
)
def test_contents_that_do_not_fit_are_refused(kind, change, rng) -> None:
    source, _, _ = made(kind, rng, n_rows=60)
    with pytest.raises(FileFormatError) as caught:
        PrivateSource.from_bytes(repack(source, change))
    assert "\n" not in str(caught.value)


def test_other_files_are_no_sources(tmp_path, rng) -> None:
    np.savez(tmp_path / "a.npz", X=np.ones(3))
    (tmp_path / "b").write_text(json.dumps({"kind": "private source"}))
    for name in ("a.npz", "b"):
        with pytest.raises(FileFormatError, match=name):
            PrivateSource.load(tmp_path / name)
