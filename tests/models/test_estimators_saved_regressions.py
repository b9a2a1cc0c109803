"""A regression in a model file: exact, without the samples, and forged contents are refused."""

import hashlib
import io as bytes_io
import json
import zipfile
from collections.abc import Callable

import numpy as np
import pytest
from sklearn.base import clone

from onefold import DeepFuzzyModel, MembershipMapping, io
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.models.fuzzy.core import leading_directions
from reference.samples import SAMPLES

State = dict[str, np.ndarray]
FAMILIES = [MembershipMapping, DeepFuzzyModel]
VARIANTS = [
    MembershipMapping(0.4, 30),
    MembershipMapping(0.4, 30, centred=False),
    DeepFuzzyModel(0.4, 30),
    DeepFuzzyModel(0.4, 30, width=0.5, scale=None),
]


@pytest.fixture
def data(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = rng.normal(size=(80, 4))
    return x, np.column_stack([x[:, 0] + 3.0, np.sin(x[:, 1])])


@pytest.mark.exact
@pytest.mark.parametrize("model", VARIANTS, ids=repr)
@pytest.mark.parametrize("one", [True, False])
@pytest.mark.parametrize("size", [1.0, 1e150])
def test_a_loaded_regression_answers_bit_for_bit(data, one: bool, model, size: float, tmp_path) -> None:
    x, y = data[0] * size, (data[1][:, 0] if one else data[1]) * size
    model = clone(model).fit(x, y)
    io.save(model, tmp_path / "mapping")
    loaded = io.load(tmp_path / "mapping")
    assert repr(loaded) == repr(model)
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))
    assert io.to_bytes(loaded) == io.to_bytes(model)
    if isinstance(model, MembershipMapping):
        np.testing.assert_array_equal(loaded.inducing_points_, model.inducing_points_)
        assert (loaded.tau_, loaded.sigma2_) == (model.tau_, model.sigma2_)
    else:
        assert str(loaded.explain(x[0])) == str(model.explain(x[0]))
        for name in ("width_", "n_rules_", "n_layers_", "precisions_"):
            assert getattr(loaded, name) == getattr(model, name)


def several_layers() -> tuple[DeepFuzzyModel, np.ndarray]:
    """A model with a second layer: its inputs are encodings of its outputs (003 Alg. 2)."""
    Y, n = SAMPLES["shifted"](np.random.default_rng(51))
    x = Y @ leading_directions(Y, n)[0]
    return DeepFuzzyModel(0.5, width=1.0, scale=None).fit(x, Y), x


@pytest.mark.exact
def test_further_layers_survive_saving() -> None:
    model, x = several_layers()
    assert model.n_layers_ > 1
    loaded = io.from_bytes(io.to_bytes(model))
    np.testing.assert_array_equal(loaded.predict(x), model.predict(x))


@pytest.mark.parametrize("family", FAMILIES)
def test_names_of_inputs_survive_saving(data, family) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(data[0], columns=list("abcd"))
    loaded = io.from_bytes(io.to_bytes(family().fit(frame, data[1])))
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame.rename(columns={"a": "z"}))


@pytest.mark.parametrize("model", [MembershipMapping(max_inducing=20), DeepFuzzyModel(max_rules=20)])
def test_the_file_does_not_grow_with_the_samples(rng: np.random.Generator, model) -> None:
    x = rng.normal(size=(4000, 3))
    assert len(io.to_bytes(clone(model).fit(x, x))) < x.nbytes / 10


@pytest.mark.parametrize("family", FAMILIES)
def test_regression_that_is_not_fitted_cannot_be_saved(family) -> None:
    with pytest.raises(InvalidInputError, match="fitted"):
        io.to_bytes(family())


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


@pytest.mark.parametrize("family", FAMILIES)
def test_forging_helper_changes_a_loaded_model(data, family) -> None:
    content = io.to_bytes(family().fit(*data))
    loaded = io.from_bytes(forged(content, "mean", lambda mean: mean + 1.0))
    answers = io.from_bytes(content).predict(data[0])
    np.testing.assert_allclose(loaded.predict(data[0]), answers + (loaded.predict(data[0]) - answers)[0, 0])
    assert not np.allclose(loaded.predict(data[0]), answers)


COMMON = [
    ("mean", lambda a: a[:1]),
    ("numbers", lambda a: a[:-1]),
    ("numbers", lambda a: a * np.inf),
    ("one_output", lambda a: ~a),
    ("one_output", lambda a: a.astype(float)),
    ("shift", lambda a: a[:-1]),
]
OF_MAPPINGS = [
    ("weights", lambda a: a[:-1]),
    ("weights", lambda a: a * np.nan),
    ("weights", lambda a: a[:, :0]),
    ("weights", lambda a: a.astype(np.float32)),
    ("weights", np.ravel),
    ("inducing", lambda a: a[:, :-1]),
    ("inducing", lambda a: a.astype(complex)),
    ("inverse_range", lambda a: -a),
    ("numbers", lambda a: a * [1, 1, 1, 0, 1]),
    ("numbers", lambda a: a * [1, -1, 1, 1, 1]),
]
OF_RULES = [
    ("consequents", lambda a: a[:, :-1]),
    ("consequents", lambda a: a * np.nan),
    ("consequents", lambda a: a[:, :, :0]),
    ("consequents", lambda a: a.astype(np.float32)),
    ("consequents", np.ravel),
    ("consequents", lambda a: np.repeat(a, 2, axis=0)),
    ("sets", lambda a: a[:, :-1]),
    ("sets", lambda a: a.astype(complex)),
    ("widths", lambda a: -a),
    ("lambdas", lambda a: -a),
    ("radii", lambda a: -a),
    ("radii", lambda a: a[:0]),
    ("numbers", lambda a: a * [0, 1, 1]),
    ("numbers", lambda a: a * [1, 1, -1]),
]
FORGERIES = [
    *((MembershipMapping, *forgery) for forgery in (*COMMON, *OF_MAPPINGS)),
    *((DeepFuzzyModel, *forgery) for forgery in (*COMMON, *OF_RULES)),
]


@pytest.mark.parametrize(("family", "name", "change"), FORGERIES)
def test_forged_arrays_are_refused(
    data, family, name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    content = io.to_bytes(family().fit(*data))
    with pytest.raises(FileFormatError) as caught:
        io.from_bytes(forged(content, name, change))
    assert "\n" not in str(caught.value)


def test_forged_layers_are_refused() -> None:
    content = io.to_bytes(several_layers()[0])
    for change in (lambda a: a[:, :-1], lambda a: a * np.nan):
        with pytest.raises(FileFormatError):
            io.from_bytes(forged(content, "encoder", change))


@pytest.mark.parametrize(
    ("family", "part"), [(MembershipMapping, "weights"), (DeepFuzzyModel, "consequents")]
)
def test_damaged_files_are_refused(data, family, part: str) -> None:
    content = io.to_bytes(family().fit(*data))
    for length in (0, 10, len(content) // 2, len(content) - 1):
        with pytest.raises(FileFormatError):
            io.from_bytes(content[:length])
    with zipfile.ZipFile(bytes_io.BytesIO(content)) as archive:
        place = archive.getinfo(f"mapping/{part}.npy").header_offset + 400
    with pytest.raises(FileFormatError):
        io.from_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
