"""A regression in a model file: exact, without the samples, and forged contents are refused."""

import hashlib
import io as bytes_io
import json
import zipfile
from collections.abc import Callable

import numpy as np
import pytest

from onefold import MembershipMapping, io
from onefold.exceptions import FileFormatError, InvalidInputError

State = dict[str, np.ndarray]


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(80, 4))
    return x, np.column_stack([x[:, 0] + 3.0, np.sin(x[:, 1])])


@pytest.mark.parametrize("centred", [True, False])
@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("size", [1.0, 1e150])
def test_a_loaded_regression_answers_bit_for_bit(
    data, one: bool, centred: bool, size: float, tmp_path
) -> None:
    x, y = data[0] * size, (data[1][:, 0] if one else data[1]) * size
    model = MembershipMapping(0.4, 30, centred=centred).fit(x, y)
    io.save(model, tmp_path / "mapping")
    loaded = io.load(tmp_path / "mapping")
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    np.testing.assert_array_equal(loaded.inducing_points_, model.inducing_points_)
    assert (loaded.tau_, loaded.sigma2_) == (model.tau_, model.sigma2_)
    assert io.to_bytes(loaded) == io.to_bytes(model)


def test_names_of_inputs_survive(data) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(data[0], columns=list("abcd"))
    loaded = io.from_bytes(io.to_bytes(MembershipMapping().fit(frame, data[1])))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))


def test_the_file_does_not_grow_with_the_samples(rng: np.random.Generator) -> None:
    x = rng.normal(size=(4000, 3))
    model = MembershipMapping(max_inducing=20).fit(x, x)
    assert len(io.to_bytes(model)) < x.nbytes / 10


def test_only_when_fitted() -> None:
    with pytest.raises(InvalidInputError, match="fitted"):
        io.to_bytes(MembershipMapping())


def forged(content: bytes, name: str, change: Callable[[np.ndarray], np.ndarray]) -> bytes:
    """The file with one array changed and every checksum made right again."""
    with zipfile.ZipFile(bytes_io.BytesIO(content)) as archive:
        parts = {member: archive.read(member) for member in archive.namelist()}
    member = f"mapping/{name}.npy"
    stream = bytes_io.BytesIO()
    np.lib.format.write_array(stream, change(np.load(bytes_io.BytesIO(parts[member]))), allow_pickle=False)
    parts[member] = stream.getvalue()
    manifest = json.loads(parts["manifest.json"])
    manifest["sums"][member] = hashlib.sha256(parts[member]).hexdigest()
    parts["manifest.json"] = json.dumps(manifest).encode()
    made = bytes_io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for part, inside in parts.items():
            archive.writestr(part, inside)
        archive.comment = hashlib.sha256(parts["manifest.json"]).hexdigest().encode()
    return made.getvalue()


def test_the_forger_can_do_it(data) -> None:
    content = io.to_bytes(MembershipMapping().fit(*data))
    loaded = io.from_bytes(forged(content, "mean", lambda mean: mean + 1.0))
    np.testing.assert_allclose(loaded.predict(data[0]), io.from_bytes(content).predict(data[0]) + 1.0)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("weights", lambda a: a[:-1]),
        ("weights", lambda a: a * np.nan),
        ("weights", lambda a: a[:, :0]),
        ("weights", lambda a: a.astype(np.float32)),
        ("weights", np.ravel),
        ("inducing", lambda a: a[:, :-1]),
        ("inducing", lambda a: a.astype(complex)),
        ("shift", lambda a: a[:-1]),
        ("inverse_range", lambda a: -a),
        ("mean", lambda a: a[:1]),
        ("numbers", lambda a: a[:4]),
        ("numbers", lambda a: a * [1, 1, 1, 0, 1]),
        ("numbers", lambda a: a * [1, -1, 1, 1, 1]),
        ("numbers", lambda a: a * np.inf),
        ("one_output", lambda a: ~a),
        ("one_output", lambda a: a.astype(float)),
    ],
)
def test_forged_arrays_are_refused(data, name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    content = io.to_bytes(MembershipMapping().fit(*data))
    with pytest.raises(FileFormatError) as caught:
        io.from_bytes(forged(content, name, change))
    assert "\n" not in str(caught.value)


def test_damage_is_refused(data) -> None:
    content = io.to_bytes(MembershipMapping().fit(*data))
    for length in (0, 10, len(content) // 2, len(content) - 1):
        with pytest.raises(FileFormatError):
            io.from_bytes(content[:length])
    with zipfile.ZipFile(bytes_io.BytesIO(content)) as archive:
        place = archive.getinfo("mapping/weights.npy").header_offset + 400
    with pytest.raises(FileFormatError):
        io.from_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
