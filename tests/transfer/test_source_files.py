"""Sources in files: exact, without raw rows, and refused where something does not fit."""

import json

import numpy as np
import pytest

from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.transfer import PrivateSource
from onefold.transfer.source import GIVEN_ROWS
from reference.damage import refusals
from reference.forging import forged
from reference.sources import KINDS, made


@pytest.mark.exact
@pytest.mark.parametrize("kind", KINDS)
def test_loaded_source_is_exact_and_keeps_the_guarantee(kind, rng, tmp_path) -> None:
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
    hulls = [stack.hull for stack in described.classifier.pool_.stacks]
    return np.vstack([(hull.centred + hull.mean[:, None]).reshape(-1, 6) for hull in hulls])


def smallest_gap(rows, others):
    return float(np.linalg.norm(rows[:, None] - others[None], axis=2).min())


@pytest.mark.parametrize("kind", ["noise", "record", "fabricated"])
def test_file_of_a_private_source_holds_no_raw_row(kind, rng) -> None:
    source, X, _ = made(kind, rng, n_rows=60)
    assert smallest_gap(stored_rows(source), X) > 0.02


def test_file_of_moments_does_not_grow_with_rows(rng) -> None:
    few, many = (len(made("moments", rng, n_rows=count)[0].to_bytes()) for count in (60, 6000))
    assert abs(few - many) < 100


def test_file_without_noise_holds_raw_rows_and_its_guarantee_says_so(rng) -> None:
    source, X, _ = made("none", rng, n_rows=60)
    assert smallest_gap(stored_rows(source), X) < 1e-12
    assert not source.guarantee_.holds
    assert "no noise was added" in str(source.guarantee_)
    assert not np.isfinite(source.guarantee_.record[0])


@pytest.mark.parametrize("kind", ["noise", "moments"])
def test_damaged_sources_are_refused(kind, rng, tmp_path) -> None:
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
    with pytest.raises(InvalidInputError, match="no private source file at"):
        PrivateSource.load(tmp_path / "absent")


def repack(source, change):
    """Change what is said about a source or its arrays, and give its bytes with right checksums."""

    def change_source(header, arrays):
        change(header["fields"]["model"]["fitted"], arrays)

    return forged(source.to_bytes(), change_source)


def better_promise(fitted, arrays) -> None:
    fitted["guarantee_"]["parameters"]["record"] = {"epsilon": 0.01, "delta": 1e-5}


def without(fitted, arrays, name):
    del fitted[name]
    for array in [array for array in arrays if f"/{name}" in array]:
        del arrays[array]


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("moments", better_promise),
        ("moments", lambda fitted, arrays: without(fitted, arrays, "subspace_")),
        ("moments", lambda fitted, arrays: fitted.update(n_features_in_=7)),
        ("moments", lambda fitted, arrays: fitted.update(n_features_in_=10**9)),
        ("moments", lambda fitted, arrays: fitted.update(encoder_={"name": "os", "given": {}})),
        ("moments", lambda fitted, arrays: fitted.update(surprise=1)),
        ("moments", lambda fitted, arrays: fitted["description_"].update(moments=None)),
        ("noise", lambda fitted, arrays: fitted["description_"].update(means=fitted["subspace_"])),
        ("noise", lambda fitted, arrays: fitted["description_"].update(rest=-1.0)),
        ("noise", lambda fitted, arrays: fitted["description_"].pop("classifier")),
        ("noise", lambda fitted, arrays: fitted["description_"]["classifier"].update({"class": "KAHM"})),
        ("noise", lambda fitted, arrays: fitted.pop("guarantee_")),
        ("noise", lambda fitted, arrays: fitted.update(n_features_in_="six")),
    ],
)
def test_sources_whose_parts_do_not_fit_are_refused(kind, change, rng) -> None:
    source, _, _ = made(kind, rng, n_rows=60)
    with pytest.raises(FileFormatError) as caught:
        PrivateSource.from_bytes(repack(source, change))
    assert "\n" not in str(caught.value)


def test_other_files_are_refused_as_sources(tmp_path, rng) -> None:
    np.savez(tmp_path / "a.npz", X=np.ones(3))
    (tmp_path / "b").write_text(json.dumps({"kind": "private source"}))
    for name in ("a.npz", "b"):
        with pytest.raises(FileFormatError, match=name):
            PrivateSource.load(tmp_path / name)


def test_source_that_says_more_than_its_moments_is_believed_no_more_than_they(rng) -> None:
    source, _, _ = made("moments", rng, n_rows=60)
    assert not source.guarantee_.holds  # made with a seed

    def claim(fitted, arrays) -> None:
        fitted["guarantee_"]["parameters"] |= {"voided_by": [], "holds": True}

    loaded = PrivateSource.from_bytes(repack(source, claim))
    assert loaded.guarantee_.voided_by == source.guarantee_.voided_by


def test_conditions_and_reasons_of_a_source_survive_its_file(rng) -> None:
    source, X, y = made("noise", rng, n_rows=60)
    promise = source.guarantee_.provided("the units are public").voided("a reason")
    given = PrivateSource.from_rows(X, y, promise)
    loaded = PrivateSource.from_bytes(given.to_bytes())
    assert loaded.guarantee_ == given.guarantee_
    assert loaded.guarantee_.conditions[-2:] == ("the units are public", GIVEN_ROWS)
    assert "a reason" in loaded.guarantee_.voided_by
