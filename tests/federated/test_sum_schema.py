"""One round for tables of a schema: the contract follows from the schema, and files cannot change it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold import MomentRegressor
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.federated import HolderKey, SchemaSum, SumHolder, SumParties
from onefold.federated.secret.schema import middle_of
from onefold.privacy import PrivateMoments
from onefold.privacy.calibration import mu_of
from onefold.privacy.moments import MomentRounds
from onefold.tables import Field, Schema
from reference.summing import rewritten

pytest.importorskip("cryptography")

KEYS = [HolderKey.new(name) for name in ("ann", "bob", "cy")]
SITES = ("a", "b", "c", "d")
PARTIES = SumParties(SITES, tuple(key.public for key in KEYS), 2, missing_sites=1)
AGE = Field("age", low=0, high=100, bins=(20.0, 40.0, 60.0))
WARD = Field("ward", "string", levels=("x", "y", "z"), missing="indicator")
ILL = Field("ill", "boolean", role="label")
WHO = Field("who", "string", role="person")
SCHEMA = Schema([AGE, WARD, ILL], rows_about=4000)


def table(seed: int, n: int = 1000) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(0, 100, n), rng.choice(["x", "y", "z", ""], n)
    ill = age + 20 * (ward == "x") + rng.normal(0, 8, n) > 60
    return {"age": age, "ward": ward, "ill": ill, "who": np.arange(n) // 2}


def opened(total: SchemaSum, folder: Path) -> Any:
    sent = [
        total.total.contribute(site, total.vector(table(i)), folder, ledger=None)
        for i, site in enumerate(SITES)
    ]
    return total.total.together(sent, [SumHolder(total.total, key, folder) for key in KEYS])


@pytest.mark.parametrize("what", ["moments", "tables"])
def test_the_whole_promise_is_spent_in_one_round(what: Any) -> None:
    contract = SchemaSum("r", PARTIES, SCHEMA, what, 1.0, 1e-6).total.contract
    assert contract.mu <= mu_of(1.0, 1e-6) < contract.mu * (1 + 1e-5)
    assert contract.guarantee.record == (1.0, 1e-6)
    assert contract.guarantee.holds


def test_moments_at_once_have_the_bits_of_one_release() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.random((60, 4)), rng.integers(0, 3, 60)
    agreed = PrivateMoments(
        None, classes=range(3), centre=np.full(4, 0.2), radius=2.0, second_moments="pooled"
    )
    rounds = MomentRounds(agreed, 4).at_once(60)
    halves = [
        np.concatenate([rounds.first_vector(X[part], y[part]), rounds.second_vector(X[part], y[part])])
        for part in (slice(0, 25), slice(25, None))
    ]
    whole = halves[0] + halves[1]
    found = rounds.after(whole[:3]).finished(whole[3:], 1.0, rounds.promise)
    alone = PrivateMoments(**agreed.get_params()).fit(X, y)
    assert np.array_equal(found.vector, alone.vector)
    assert np.array_equal(found.centre_, alone.centre_)
    with pytest.raises(InvalidInputError, match="a round of its own"):
        MomentRounds(PrivateMoments(1.0, classes=range(3)), 4).at_once(60)


def test_budget_is_divided_by_declared_rows_and_not_by_opened_counts() -> None:
    agreed = PrivateMoments(1.0, classes=range(3), centre=None, second_moments="pooled")
    rounds = MomentRounds(agreed, 30).at_once(100)
    many = np.full(3, 10**6 << 28, dtype=np.int64)
    assert rounds.after(many).second_parts == rounds.second_parts
    assert MomentRounds(agreed, 30).after(many).second_parts != rounds.second_parts


def test_opened_moments_classify(tmp_path: Path) -> None:
    total = SchemaSum("r", PARTIES, SCHEMA, "moments", 3.0)
    model: Any = total.result(opened(total, tmp_path))
    new = table(9)
    assert np.mean(np.asarray(model.predict(new)) == new["ill"]) > 0.8
    assert model.guarantee_.holds
    assert model.guarantee_.n_owners == 4


COST = Field("cost", role="label", low=0, high=1000)


def priced(seed: int, n: int = 1000) -> dict[str, Any]:
    found = table(seed, n)
    return found | {"cost": 100 + 5 * found["age"] + 200 * (found["ward"] == "x")}


def test_opened_moments_predict_numbers_with_the_noise_of_one_release(tmp_path: Path) -> None:
    schema = Schema([AGE, WARD, COST], rows_about=4000)
    total = SchemaSum("r", PARTIES, schema, "moments", 1.0)
    sent = [
        total.total.contribute(site, total.vector(priced(i)), tmp_path, ledger=None)
        for i, site in enumerate(SITES)
    ]
    found: Any = total.result(
        total.total.together(sent, [SumHolder(total.total, key, tmp_path) for key in KEYS])
    )
    new = priced(9)
    assert np.sqrt(np.mean((found.predict(new) - new["cost"]) ** 2)) < 0.3 * np.std(new["cost"])
    assert found.guarantee_.holds
    assert found.guarantee_.record == (1.0, total.total.contract.guarantee.record[1])
    counts, deviation = found.moments_.counts_[0], found.moments_.count_noise_[0]
    assert abs(counts - 4000) < 6 * deviation
    everybody = {name: np.concatenate([priced(i)[name] for i in range(len(SITES))]) for name in priced(0)}
    once = MomentRegressor(1.0, schema=schema, random_state=0).fit(everybody).moments_.count_noise_[0]
    contract = total.total.contract  # all sites came, and fewer would have been enough
    assert deviation == pytest.approx(once * np.sqrt(len(SITES) / contract.least_adding), rel=0.01)


def test_numbers_take_one_round_and_protect_persons() -> None:
    with pytest.raises(InvalidInputError, match="numbers to predict take one"):
        SchemaSum("r", PARTIES, Schema([AGE, COST]), "moments", rounds=2)
    schema = Schema([AGE, WARD, COST, WHO], rows_about=4000, rows_per_person=2)
    total = SchemaSum("r", PARTIES, schema)
    assert total.total.guarantee.unit == "person"
    assert total.vector(priced(0)).dtype == np.int64


@pytest.mark.parametrize("fields", [[AGE, ILL], [Field("age", low=0, high=100), WARD, ILL]])
def test_opened_tables_make_rows_with_declared_or_even_bins(tmp_path: Path, fields: list[Field]) -> None:
    total = SchemaSum("r", PARTIES, Schema(fields, rows_about=4000), "tables", 3.0)
    made = total.result(opened(total, tmp_path)).sample(random_state=0)
    assert abs(len(made["age"]) - 4000) < 400
    assert 40 < np.mean(made["age"]) < 60


@pytest.mark.parametrize("what", ["moments", "tables"])
def test_person_column_makes_a_promise_to_persons(what: Any) -> None:
    schema = Schema([AGE, WARD, ILL, WHO], rows_about=4000, rows_per_person=2)
    total = SchemaSum("r", PARTIES, schema, what)
    assert total.total.guarantee.unit == "person"
    assert total.vector(table(0)).dtype == np.int64
    with pytest.raises(InvalidInputError, match="rowsPerPerson"):
        SchemaSum("r", PARTIES, Schema([AGE, ILL, WHO]), what)


@pytest.mark.parametrize(
    "fields, what, words",
    [
        ([AGE, WARD], "moments", "need classes"),
        ([AGE, ILL], "rows", "what"),
    ],
)
def test_schemas_that_one_round_cannot_sum_are_refused(fields: Any, what: Any, words: str) -> None:
    with pytest.raises(InvalidInputError, match=words):
        SchemaSum("r", PARTIES, Schema(fields), what)


def test_schema_of_private_rows_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="inferred from private rows"):
        SchemaSum("r", PARTIES, Schema([AGE, ILL], source="private"))


def test_middle_lies_in_the_unit_ball_and_has_the_width_of_rows() -> None:
    middle = middle_of(SCHEMA)
    assert middle.shape == (SCHEMA.width,)
    assert np.linalg.norm(middle) <= 1
    assert middle[0] * SCHEMA.row_norm == pytest.approx(0.5)


@pytest.mark.parametrize("what", ["moments", "tables"])
def test_file_gives_the_same_contract(tmp_path: Path, what: Any) -> None:
    total = SchemaSum("r", PARTIES, SCHEMA, what)
    total.save(tmp_path / "c")
    again = SchemaSum.load(tmp_path / "c")
    assert again.total.contract.digest == total.total.contract.digest
    assert again.schema.digest == SCHEMA.digest


@pytest.mark.parametrize("change", ["sensitivity", "epsilon", "schema", "size"])
def test_contract_that_does_not_follow_from_its_schema_is_refused(tmp_path: Path, change: str) -> None:
    path = tmp_path / "c"
    SchemaSum("r", PARTIES, SCHEMA).save(path)

    def changed(plain: Any) -> None:
        if change == "sensitivity":  # less noise for the same promise, as far as the contract alone can tell
            for block in plain["contract"]["blocks"]:
                block["change"] /= 2
                block["sigma"] /= 2
        elif change == "epsilon":
            plain["epsilon"] = 0.5
        elif change == "schema":
            plain["schema"]["fields"][0]["constraints"]["maximum"] = 1000
        else:
            plain["contract"]["blocks"][0]["length"] += 1

    path.write_bytes(rewritten(path.read_bytes(), changed))
    with pytest.raises(FileFormatError, match="does not follow from its schema"):
        SchemaSum.load(path)


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    for content in (b"", b"{}", b"[1]", KEYS[0].to_bytes()):
        (tmp_path / "c").write_bytes(content)
        with pytest.raises(FileFormatError, match="not a"):
            SchemaSum.load(tmp_path / "c")
