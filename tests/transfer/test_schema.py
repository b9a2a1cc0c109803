"""Transfer between tables in their own units: the schema prepares columns, and no class is lost."""

import warnings

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError, OnefoldWarning
from onefold.fabrication import Fabricator
from onefold.privacy import AnalyticGaussian, Box, Laplace, PrivateMoments, domain_of
from onefold.privacy.contract import DECLARED
from onefold.tables import Field, Schema
from onefold.transfer import PrivateSource, TransferClassifier

# Clinical columns: platelets are five orders of magnitude above creatinine, and say nothing.
SCHEMA = Schema(
    [
        Field("age", "integer", low=0, high=110, unit="a"),
        Field("glucose", low=2, high=30, unit="mmol/L", missing="indicator"),
        Field("creatinine", low=20, high=400, unit="umol/L"),
        Field("platelets", low=0, high=900_000, unit="1/uL"),
        Field("sex", "string", levels=("f", "m")),
        Field("outcome", "string", "label", levels=("home", "transfer", "ward")),
    ],
)


def clinic(n: int, seed: int, older: float = 0.0) -> dict[str, np.ndarray]:
    """Rows of one clinic; 54 % go home."""
    rng = np.random.default_rng(seed)
    code = rng.choice(3, n, p=[0.54, 0.2, 0.26])
    glucose = np.array([6.0, 14.0, 9.0])[code] + rng.normal(0, 1.5, n)
    return {
        "age": np.clip(np.array([45, 60, 75])[code] + older + rng.normal(0, 10, n), 0, 110).round(),
        "glucose": np.where(rng.random(n) < 0.1, np.nan, glucose),
        "creatinine": np.clip(np.array([80, 110, 180])[code] + rng.normal(0, 25, n), 20, 400),
        "platelets": np.clip(rng.normal(250_000, 60_000, n), 0, 900_000),
        "sex": rng.choice(["f", "m"], n),
        "outcome": np.array(["home", "transfer", "ward"])[code],
    }


def few(data: dict[str, np.ndarray], n: int = 30) -> dict[str, np.ndarray]:
    return data | {"outcome": np.where(np.arange(len(data["age"])) < n, data["outcome"], "")}


@pytest.fixture(scope="module")
def source() -> PrivateSource:
    return PrivateSource.fit(clinic(4000, 0), mechanism=PrivateMoments(1.0, random_state=0), schema=SCHEMA)


def test_columns_in_raw_units_transfer_by_the_schema_and_not_without(source: PrivateSource) -> None:
    """Before, rows were shortened to the column with the largest numbers: worse than the majority."""
    target, test = clinic(600, 1, older=5.0), clinic(2000, 2, older=5.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnefoldWarning)
        model = TransferClassifier(source).fit(few(target))
    right = np.mean(model.predict(test) == test["outcome"])
    majority = np.mean(test["outcome"] == "home")
    assert right > 0.88
    assert model.accuracy_ > model.majority_
    assert np.mean(source.predict(test) == test["outcome"]) > 0.85

    names = ("age", "creatinine", "platelets")
    raw = [np.column_stack([data[name] for name in names]) for data in (clinic(4000, 0), test)]
    moments = PrivateMoments(1.0, classes=["home", "transfer", "ward"], random_state=0)
    alone = PrivateSource.fit(raw[0], clinic(4000, 0)["outcome"], moments)
    assert np.mean(alone.predict(raw[1]) == test["outcome"]) < majority + 0.02


def test_source_of_a_table_rests_on_its_schema(source: PrivateSource) -> None:
    promise = PrivateSource.fit(clinic(300, 0), mechanism=PrivateMoments(1.0), schema=SCHEMA).guarantee_
    assert promise.holds
    assert promise.record == (1.0, 1e-5)
    assert promise.schema == SCHEMA.digest
    assert DECLARED in promise.conditions
    assert source.description_.moments.radius == SCHEMA.row_norm
    assert source.classes_.tolist() == ["home", "transfer", "ward"]
    private = Schema(SCHEMA.fields, source="private")
    with pytest.raises(InvalidInputError, match="inferred from private rows"):
        PrivateSource.fit(clinic(50, 0), mechanism=PrivateMoments(1.0), schema=private)


def test_source_and_classifier_of_tables_are_restored_with_their_schema(source: PrivateSource) -> None:
    again = PrivateSource.from_bytes(source.to_bytes())
    assert again.schema_.digest == SCHEMA.digest
    assert again.guarantee_ == source.guarantee_
    model = TransferClassifier(source).fit(few(clinic(200, 1)))
    loaded = TransferClassifier.from_bytes(model.to_bytes())
    assert loaded.schema.digest == loaded.schema_.digest == SCHEMA.digest
    assert (loaded.accuracy_, loaded.majority_) == (model.accuracy_, model.majority_)
    test = clinic(100, 2)
    assert np.array_equal(loaded.predict(test), model.predict(test))


@pytest.mark.parametrize("fabricated", [False, True])
def test_noise_on_rows_takes_the_domain_of_the_schema(fabricated: bool) -> None:
    noise = AnalyticGaussian(30.0, sensitivity=domain_of(SCHEMA), unit="record")
    mechanism = Fabricator(noise, 2) if fabricated else noise
    source = PrivateSource.fit(clinic(600, 0), mechanism=mechanism, schema=SCHEMA)
    assert source.guarantee_.record == (30.0, 1e-5)
    assert source.guarantee_.n_features == 5
    assert source.guarantee_.schema == SCHEMA.digest
    test = clinic(500, 1)
    assert set(source.predict(test)) <= set(test["outcome"])
    with pytest.raises(InvalidInputError, match=r"domain_of\(schema\)"):
        PrivateSource.fit(clinic(50, 0), mechanism=Laplace(1.0, sensitivity=Box(0, 1)), schema=SCHEMA)


def test_cells_outside_the_contract_never_stop_a_source() -> None:
    data = {name: values.astype(object) for name, values in clinic(300, 0).items()}
    data["age"][:2], data["sex"][0], data["outcome"][:2] = ["old", None], "a far longer word", ["?", None]
    source = PrivateSource.fit(data, mechanism=PrivateMoments(1.0), schema=SCHEMA)
    assert source.classes_.tolist() == ["home", "transfer", "ward"]
    noise = Laplace(1.0, sensitivity=domain_of(SCHEMA))
    assert PrivateSource.fit(data, mechanism=noise, schema=SCHEMA).guarantee_.entry == (1.0, 0.0)


def test_no_class_is_lost_silently(source: PrivateSource) -> None:
    target = few(clinic(300, 1))
    lacking = target | {"outcome": np.where(target["outcome"] == "ward", "", target["outcome"])}
    with pytest.raises(InvalidInputError, match="no row is labelled as ward"):
        TransferClassifier(source).fit(lacking)
    strange = target | {"outcome": np.where(target["outcome"] == "ward", "hospice", target["outcome"])}
    with pytest.raises(InvalidInputError, match=r"row .*, column 'outcome': is not one of the 3") as caught:
        TransferClassifier(source).fit(strange)
    assert "hospice" not in str(caught.value)
    data = clinic(3000, 0)
    rare = {
        name: values[(data["outcome"] != "ward") | (np.arange(3000) < 12)] for name, values in data.items()
    }
    small = PrivateSource.fit(rare, mechanism=PrivateMoments(1.0, random_state=0), schema=SCHEMA)
    assert small.small_classes() == ["ward"]
    assert source.small_classes() == []


def test_a_model_no_better_than_the_majority_says_so() -> None:
    rng = np.random.default_rng(0)
    noise = clinic(400, 0) | {"outcome": rng.choice(["home", "transfer", "ward"], 400, p=[0.8, 0.1, 0.1])}
    source = PrivateSource.fit(noise, mechanism=PrivateMoments(1.0, random_state=0), schema=SCHEMA)
    target = few(
        clinic(300, 1) | {"outcome": rng.choice(["home", "transfer", "ward"], 300, p=[0.8, 0.1, 0.1])}, 60
    )
    with pytest.warns(OnefoldWarning, match=r"most frequent label alone gets \d"):
        model = TransferClassifier(source).fit(target)
    assert model.accuracy_ <= model.majority_


def test_schemas_of_source_and_target_must_mean_the_same_features(source: PrivateSource) -> None:
    other = Schema([Field("age", "integer", low=0, high=99), *SCHEMA.fields[1:]])
    with pytest.raises(InvalidInputError, match="feature 1 of the schema, 'age', differs from 'age'"):
        TransferClassifier(source, schema=other).fit(few(clinic(50, 1)))
    with pytest.raises(InvalidInputError, match="has 4 features, that of the source has 5"):
        TransferClassifier(source, schema=Schema([*SCHEMA.fields[:4], SCHEMA.fields[5]])).fit(clinic(50, 1))


@pytest.mark.parametrize(
    ("label", "values"),
    [
        (Field("y", "boolean", "label"), [False, True]),
        (Field("y", "integer", "label", levels=(1, 2)), [1, 2]),
        (Field("y", "string", "label", levels=("a", "b")), ["a", "b"]),
    ],
)
def test_labels_of_any_type_may_be_unknown(label: Field, values: list) -> None:
    rng = np.random.default_rng(0)
    code = rng.integers(0, 2, 600)
    data = {"x": code + rng.normal(0, 0.2, 600), "y": np.array(values)[code]}
    schema = Schema([Field("x", low=-1, high=2), label])
    source = PrivateSource.fit(data, mechanism=PrivateMoments(4.0, random_state=0), schema=schema)
    seen = data["y"].astype(object)
    seen[10:] = None
    model = TransferClassifier(source).fit({"x": data["x"], "y": seen})
    assert np.mean(model.transduction_ == data["y"]) > 0.9
