"""A regression in a model file: exact, without the samples, and forged contents are refused."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.base import clone

from onefold import DeepFuzzyModel, MembershipMapping, io
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.models.fuzzy.core import leading_directions
from reference.forging import forged, opened, with_array
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


@pytest.mark.parametrize("family", FAMILIES)
def test_forging_helper_changes_a_loaded_model(data, family) -> None:
    content = io.to_bytes(family().fit(*data))
    loaded = io.from_bytes(with_array(content, "/_mean", lambda mean: mean + 1.0))
    answers = io.from_bytes(content).predict(data[0])
    np.testing.assert_allclose(loaded.predict(data[0]), answers + (loaded.predict(data[0]) - answers)[0, 0])
    assert not np.allclose(loaded.predict(data[0]), answers)


COMMON = [
    ("/_mean", lambda a: a[:1]),
    ("/_mean", lambda a: a[:0]),
    ("/shift", lambda a: a[:-1]),
]
OF_MAPPINGS = [
    ("/weights", lambda a: a[:-1]),
    ("/weights", lambda a: a * np.nan),
    ("/weights", lambda a: a[:, :0]),
    ("/weights", lambda a: a.astype(np.float32)),
    ("/weights", np.ravel),
    ("/inducing", lambda a: a[:, :-1]),
    ("/inducing", lambda a: a.astype(np.int64)),
    ("/inverse_range", lambda a: -a),
]
OF_RULES = [
    ("/consequents", lambda a: a[:-1]),
    ("/consequents", lambda a: a * np.nan),
    ("/consequents", lambda a: a[:, :0]),
    ("/consequents", np.ravel),
    ("/consequents", lambda a: np.repeat(a, 2, axis=0)),
    ("/centres", lambda a: a[:, :-1]),
    ("/centres", lambda a: a.astype(np.int64)),
    ("/widths", lambda a: -a),
]
# Numbers of a header: where they are, and what no fitted model has there.
NUMBERS = [
    *((family, ("_one_output",), value) for family in FAMILIES for value in (True, 0, None)),
    *(
        (family, (name,), value)
        for family in FAMILIES
        for name in ("_unit", "_input_unit")
        for value in (0.0, -1.0, "")
    ),
    *((MembershipMapping, ("mapping_", name), -1.0) for name in ("ridge", "tau", "variance")),
    *((DeepFuzzyModel, ("_layers", 0, name), -1.0) for name in ("precision", "radius")),
    (DeepFuzzyModel, ("width_",), 0.0),
    (DeepFuzzyModel, ("_layers",), []),
    (DeepFuzzyModel, ("surprise",), 1),
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
        io.from_bytes(with_array(content, name, change))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("family", "place", "value"), NUMBERS)
def test_forged_numbers_are_refused(data, family, place, value) -> None:
    def change(header, arrays):
        inner = header["fields"]["model"]["fitted"]
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = value

    with pytest.raises(FileFormatError) as caught:
        io.from_bytes(forged(io.to_bytes(family().fit(*data)), change))
    assert "\n" not in str(caught.value)


def test_forged_layers_are_refused() -> None:
    content = io.to_bytes(several_layers()[0])
    for change in (lambda a: a[:, :-1], lambda a: a * np.nan):
        with pytest.raises(FileFormatError):
            io.from_bytes(with_array(content, "/_encoder", change))


def name_of(content: bytes, part: str) -> str:
    return next(name for name in opened(content)[1] if name.endswith(part))


@pytest.mark.parametrize(
    ("family", "part"), [(MembershipMapping, "weights"), (DeepFuzzyModel, "consequents")]
)
def test_damaged_files_are_refused(data, family, part: str) -> None:
    content = io.to_bytes(family().fit(*data))
    for length in (0, 10, len(content) // 2, len(content) - 1):
        with pytest.raises(FileFormatError):
            io.from_bytes(content[:length])
    place = content.index(opened(content)[1][name_of(content, part)].tobytes()) + 40
    with pytest.raises(FileFormatError):
        io.from_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
