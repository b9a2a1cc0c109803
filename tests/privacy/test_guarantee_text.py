"""What a guarantee prints and writes: epsilons with unit and condition, JSON that its schema describes."""

import json
import math
import re
from dataclasses import fields
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given, settings

from onefold.exceptions import InvalidInputError
from onefold.privacy import AnalyticGaussian, Box, FisherGaussian, Guarantee, Laplace
from onefold.privacy.terms import NOTHING, shown
from reference.guarantees import guarantees

many = settings(max_examples=60, deadline=None)
UNIT = r"per (entry|record with label|record|label|person with labels|person)\b"
CONDITION = (
    r"clipped to the declared domain|\(not checked\)|under the conditions below|of the declared classes"
)


# --- sentences --------------------------------------------------------------------------------------------


@many
@given(guarantees)
def test_every_line_with_an_epsilon_names_its_unit_and_its_condition(guarantee: Guarantee) -> None:
    lines = str(guarantee).splitlines()
    for line in lines:
        told = len(re.findall("epsilon", line))
        assert told == len(re.findall(rf"epsilon(?: [\d.e+-]+)? {UNIT}", line)), line
        assert told == 0 or re.search(CONDITION, line), line
        assert "  " not in line
        assert line[0].isupper()
        assert line.endswith(".")
    for condition in guarantee.conditions:
        assert f"Provided that {condition}." in lines
    with_epsilon = [i for i, line in enumerate(lines) if "epsilon" in line]
    if guarantee.conditions and with_epsilon:  # lines that point to them stand above them
        assert all("under the conditions below" in lines[i] for i in with_epsilon)
        assert max(with_epsilon) < lines.index(f"Provided that {guarantee.conditions[0]}.")


@many
@given(guarantees)
def test_no_printed_number_is_smaller_than_the_stored_one(guarantee: Guarantee) -> None:
    starts = {"One entry": guarantee.entry, "One label": guarantee.labels, "A record with": None}
    starts["A record with"] = guarantee.record_with_label
    for line in str(guarantee).splitlines():
        for start, pair in starts.items():
            found = re.search(rf"^{start}.*: epsilon ([\d.e+-]+) per [a-z ]+, delta ([\d.e+-]+)\.$", line)
            if found and pair is not None:
                assert float(found[1]) >= pair[0] * (1 - 1e-9)
                assert float(found[2]) >= pair[1] * (1 - 1e-9)
                assert float(found[1]) <= pair[0] * 1.001


@pytest.mark.parametrize(
    "number, text",
    [
        (1.00004, "1.001"),
        (5.0, "5"),
        (5.0 * (1 + 1e-15), "5"),
        (0.1, "0.1"),
        (99.9901, "100"),
        (1e-5, "1e-05"),
        (0.0, "0"),
        (math.inf, "inf"),
        (12345.6, "1.235e+04"),
    ],
)
def test_numbers_are_printed_rounded_up(number: float, text: str) -> None:
    assert shown(number) == text


@pytest.mark.parametrize("change", [0.99999951, 1 / 3, 2 / 3, 1234567.8, 0.1, 255.0])
def test_no_printed_condition_allows_a_larger_change_than_the_numbers_do(change: float) -> None:
    entry = Laplace(1.0, sensitivity=change)
    record = Laplace(1.0, sensitivity=change, unit="record")
    rows = FisherGaussian(1.0, sensitivity=change)
    for text in (str(noise.guarantee(3)) for noise in (entry, record, rows)):
        allowed = [float(word) for word in re.findall(r"changes by more than ([^ ,]+)", text)]
        assert allowed
        assert all(change * (1 - 1e-5) <= number <= change for number in allowed)


def test_the_condition_of_a_record_names_the_measure_of_its_change() -> None:
    for kind, words in ((Laplace, "the sum of absolute changes"), (AnalyticGaussian, "the Euclidean size")):
        text = str(kind(1.0, sensitivity=3.0, unit="record").guarantee(5))
        assert f"no record changes by more than 3 ({words}" in text
        assert "which nothing checks" in text


def test_odds_are_those_of_the_best_test_between_two_possibilities() -> None:
    """A test that is right with probability (e^epsilon + delta)/(1 + e^epsilon), found by brute force."""
    epsilon, delta = 0.7, 0.05
    grown = math.exp(epsilon)
    best = 0.0
    for i in range(2001):  # the true positive rate that both inequalities allow at a false positive rate
        wrong = i / 2000
        best = max(best, (min(grown * wrong + delta, 1 - (1 - wrong - delta) / grown, 1.0) + 1 - wrong) / 2)
    assert best == pytest.approx((grown + delta) / (1 + grown), abs=1e-3)
    said = Guarantee("record", (0.1, 0.0), (epsilon, delta), 3, clipped=True).odds("record")
    assert f"in at most {shown(100 * (grown + delta) / (1 + grown))} of 100 cases" in said
    assert f"odds of at most {shown((grown + delta) / (1 - delta))} to 1" in said
    assert "the features of one record" in said
    large = Guarantee("record", (50.0, 0.0), (256.0, 0.0), 3, clipped=True).odds("record")
    assert "may be practically certain after seeing the release (epsilon 256)" in large


@many
@given(guarantees)
def test_odds_promise_nothing_where_nothing_holds(guarantee: Guarantee) -> None:
    for unit in ("entry", "record", "person"):
        said = guarantee.odds(unit)
        pair = getattr(guarantee, unit) or NOTHING
        if not guarantee.holds:
            assert "the guarantee is void" in said
        elif not math.isfinite(pair[0]):
            assert said.startswith("Nothing is promised about")
        if guarantee.conditions or not guarantee.clipped:
            assert "An attacker" not in said or said.endswith(", if the conditions are true.")
    with pytest.raises(InvalidInputError, match="unit must be"):
        guarantee.odds("label")


# --- JSON -------------------------------------------------------------------------------------------------

SCHEMA = json.loads((files("onefold.privacy") / "guarantee.schema.json").read_text(encoding="utf-8"))
TYPES = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, (int, float)) and not isinstance(value, bool),
}
KNOWN = {
    *("$schema", "$id", "$defs", "$ref", "title", "description", "type", "enum", "anyOf", "items"),
    *("properties", "required", "additionalProperties"),
    *("minimum", "maximum", "exclusiveMinimum", "minLength"),
}


def breaks(value: Any, schema: dict[str, Any], where: str = "$") -> list[str]:
    """What the value breaks of the keywords that this schema uses; an unknown keyword is a mistake here."""
    assert set(schema) <= KNOWN, set(schema) - KNOWN
    found = []
    if "$ref" in schema:
        found += breaks(value, SCHEMA["$defs"][schema["$ref"].removeprefix("#/$defs/")], where)
    if "anyOf" in schema and all(breaks(value, one, where) for one in schema["anyOf"]):
        found.append(f"{where}: none of the alternatives")
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if types and not any(TYPES[name](value) for name in types):
        found.append(f"{where}: not {types}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{where}: not one of the words")
    if TYPES["number"](value):
        low, high = schema.get("minimum", -math.inf), schema.get("maximum", math.inf)
        if not low <= value <= high or value <= schema.get("exclusiveMinimum", -math.inf):
            found.append(f"{where}: out of range")
    if isinstance(value, str) and len(value) < schema.get("minLength", 0):
        found.append(f"{where}: too short")
    if isinstance(value, list):
        found += [
            each
            for i, item in enumerate(value)
            for each in breaks(item, schema.get("items", {}), f"{where}[{i}]")
        ]
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        found += [f"{where}: {name} is missing" for name in schema.get("required", []) if name not in value]
        for name, item in value.items():
            if name in properties:
                found += breaks(item, properties[name], f"{where}.{name}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{where}: {name} is not described")
    return found


OPTIONAL = {"schema", "charges"}  # left out where there is nothing to say


@many
@given(guarantees)
def test_json_obeys_its_schema_and_is_read_back_as_it_was(guarantee: Guarantee) -> None:
    text = json.dumps(guarantee.to_dict(), allow_nan=False)
    plain = json.loads(text)
    assert breaks(plain, SCHEMA) == []
    assert Guarantee.from_dict(plain) == guarantee
    assert plain["holds"] == guarantee.holds
    assert plain["text"] == str(guarantee)


def test_the_schema_describes_every_field_and_no_other() -> None:
    names = {field.name for field in fields(Guarantee)} | {"holds", "text", "odds"}
    assert set(SCHEMA["properties"]) == {*SCHEMA["required"], *OPTIONAL} == names
    assert all("description" in described for described in SCHEMA["properties"].values())


@pytest.mark.parametrize("name", sorted(SCHEMA["properties"]))
def test_a_description_with_one_field_less_or_wrong_breaks_the_schema(name: str) -> None:
    plain = Laplace(1.0, sensitivity=Box(0, 1)).guarantee(3, 10, rows_per_person=2).to_dict()
    assert breaks(plain, SCHEMA) == []
    missing = {key: value for key, value in plain.items() if key != name}
    assert breaks(missing, SCHEMA) == [f"$: {name} is missing"] * (name not in OPTIONAL)
    for wrong in ({"epsilon": -1.0, "delta": 2.0}, -1, [3]):
        assert breaks({**plain, name: wrong}, SCHEMA)
    assert breaks({**plain, "further": 1}, SCHEMA) == ["$: further is not described"]
