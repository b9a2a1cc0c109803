"""Guesses from rows carry no promise until a person confirms them: commands refuse, the library voids."""

import argparse
import inspect
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold import fabrication, federated, io, privacy, release, transfer
from onefold.cli.app import COMMANDS, build_parser, main
from onefold.cli.federate.sums import checked_contract
from onefold.exceptions import InvalidInputError
from onefold.fabrication import (
    Fabricator,
    MomentClassifier,
    MomentFabricator,
    MomentRegressor,
    PrivateClassifier,
    TableSynthesizer,
)
from onefold.federated import (
    HolderKey,
    LocalModel,
    MomentFederation,
    NumberRelease,
    SchemaSum,
    SumParties,
    release_moments,
    simulate,
    simulate_regression,
)
from onefold.privacy import AnalyticGaussian, Laplace, Ledger, PrivateMoments, domain_of
from onefold.privacy.contract import GUESSED
from onefold.release import release_table
from onefold.tables import CellEncoder, Field, Schema
from onefold.transfer import PrivateSource

pytestmark = pytest.mark.filterwarnings("ignore::onefold.exceptions.DataScaleWarning")

RNG = np.random.default_rng(0)
N = 60
TABLE: dict[str, Any] = {
    "age": RNG.integers(18, 90, N),
    "weight": RNG.normal(70, 9, N).round(1),
    "ward": RNG.choice(["cardio", "neuro", "surgery"], N),
    "ill": np.where(np.arange(N) % 2 == 0, "no", "yes"),
}
GUESSES = Schema.infer(TABLE, "ill")
NUMBERS = Schema.infer({name: TABLE[name] for name in ("age", "ward", "weight")}, "weight", task="regression")
GROUND = "the code book of 2024"
NAMES = [known.name for known in GUESSES.fields]


# --- the command line ---------------------------------------------------------------------------------------


def _leaves(parser: argparse.ArgumentParser, words: list[str]) -> Iterator[tuple[list[str], Any]]:
    parts = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not parts:
        yield words, parser
    for action in parts:
        for name, part in action.choices.items():
            yield from _leaves(part, [*words, name])


def _private_commands() -> dict[str, list[str]]:
    """A command line for everything that takes a schema and an epsilon, from the parser itself."""
    found = {}
    for command in COMMANDS:
        top = next(a for a in build_parser([command])._actions if isinstance(a, argparse._SubParsersAction))
        for words, parser in _leaves(top.choices[command], [command]):
            options = {option: action for action in parser._actions for option in action.option_strings}
            if not {"--schema", "--epsilon"} <= set(options):
                continue
            line = list(words)
            for action in parser._actions:
                value = str(next(iter(action.choices))) if action.choices else "1"
                if not action.option_strings:
                    line += [] if action.nargs in ("?", "*") else ["data.csv"]
                elif action.required and action.dest not in ("schema", "epsilon"):
                    line += [action.option_strings[-1], *[value] * (2 if action.nargs == 2 else 1)]
            found[" ".join(words)] = [*line, "--schema", "schema.json", "--epsilon", "1"]
    return found


PRIVATE_COMMANDS = _private_commands()


def test_the_commands_that_promise_something_are_known() -> None:
    known = {"fit", "fabricate", "synthesize", "release", "transfer source", "federate site"}
    assert known <= set(PRIVATE_COMMANDS)
    assert {"federate sum new", "federate simulate"} <= set(PRIVATE_COMMANDS)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    GUESSES.save("schema.json")
    lines = [",".join(NAMES), *(",".join(map(str, row)) for row in zip(*TABLE.values(), strict=True))]
    Path("data.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("line", PRIVATE_COMMANDS.values(), ids=PRIVATE_COMMANDS)
def test_private_commands_refuse_guesses_and_name_the_columns(
    line: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(folder.iterdir())
    assert main(line) == 2
    told = capsys.readouterr().err.strip()
    assert "\n" not in told
    assert all(repr(name) in told for name in NAMES)
    assert "onefold schema confirm schema.json --column" in told
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize(
    "line", ["release data.csv --lam 1 --out out.csv", "synthesize --mock --out out.csv --rows 5"]
)
def test_commands_without_an_epsilon_refuse_guesses_too(
    line: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*line.split(), "--schema", "schema.json"]) == 2
    assert "nobody has confirmed" in capsys.readouterr().err
    assert not Path("out.csv").exists()


def test_columns_are_confirmed_one_by_one_and_the_guarantee_quotes_the_ground(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    confirm = ["schema", "confirm", "schema.json", "--quiet"]
    private = ["--schema", "schema.json", "--epsilon", "1"]
    synthesize = ["synthesize", "data.csv", *private, "--out", "out.csv", "--json"]
    told = ["--ground", GROUND, "--by", "anna"]
    assert main([*confirm, *told, *(f"--column={name}" for name in NAMES[1:])]) == 0
    assert main(synthesize) == 2
    assert "about 'age':" in capsys.readouterr().err
    assert main([*confirm, *told, "--column", "age"]) == 0
    known = Schema.load("schema.json")
    assert not known.to_review
    assert {(each.confirmed.by, each.confirmed.ground) for each in known.fields if each.confirmed} == {
        ("anna", GROUND)
    }
    assert known.digest == GUESSES.digest
    assert main(synthesize) == 0
    promise = json.loads(Path("out.csv.guarantee.json").read_text(encoding="utf-8"))
    assert promise["holds"] is True
    assert any(GROUND in condition for condition in promise["conditions"])


def test_all_columns_are_confirmed_only_by_a_public_source(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    confirm = ["schema", "confirm", "schema.json"]
    for wrong in (
        [],
        ["--ground", GROUND],
        ["--column", "age"],
        ["--column", "age", "--ground", " "],
        ["--column", "age", "--ground", "two\nlines"],
        ["--column", "age", "--public-source", "registry"],
        ["--column", "agee", "--ground", GROUND],
    ):
        content = Path("schema.json").read_bytes()
        assert main([*confirm, *wrong]) == 2
        assert Path("schema.json").read_bytes() == content
    assert "did you mean 'age'?" in capsys.readouterr().err
    assert main([*confirm, "--public-source", "the census of 2021"]) == 0
    private = ["--schema", "schema.json", "--epsilon", "1"]
    assert main(["fit", "data.csv", *private, "--out", "m.onefold", "--quiet"]) == 0
    promise = json.loads(Path("m.onefold.guarantee.json").read_text(encoding="utf-8"))
    assert "the schema was inferred from a public source: the census of 2021" in promise["conditions"]
    assert main([*confirm, "--public-source", "again"]) == 2  # nothing is marked any more


def test_a_schema_of_private_rows_cannot_be_confirmed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Schema.infer(TABLE, "ill", source="private").save("schema.json")
    assert main(["schema", "confirm", "schema.json", "--public-source", "none"]) == 2
    assert main(["schema", "confirm", "schema.json", "--column", "age", "--ground", GROUND]) == 2
    assert capsys.readouterr().err.count("inferred from private rows") == 2


# --- the library --------------------------------------------------------------------------------------------


def synthesizer(schema: Schema, ledger: Any) -> Any:
    return TableSynthesizer(schema, 1.0, ledger=ledger).fit(TABLE).guarantee_


def classifier(schema: Schema, ledger: Any) -> Any:
    return MomentClassifier(1.0, schema=schema, ledger=ledger).fit(TABLE).guarantee_


def regressor(schema: Schema, ledger: Any) -> Any:
    numbers = _like(schema, NUMBERS)
    return MomentRegressor(1.0, schema=numbers, ledger=ledger).fit(TABLE).guarantee_


def moments(schema: Schema, ledger: Any) -> Any:
    agreed = PrivateMoments(1.0, classes=["no", "yes"], radius=schema.row_norm, ledger=ledger)
    return agreed.fit(schema.transform(TABLE), TABLE["ill"], schema=schema).guarantee_


def moments_of_a_site(schema: Schema, ledger: Any) -> Any:
    agreed = PrivateMoments(1.0, centre=None, ledger=ledger)
    return PrivateMoments.from_bytes(release_moments(TABLE, None, agreed, schema=schema)).guarantee_


def fabricator(schema: Schema, ledger: Any) -> Any:
    maker = Fabricator(Laplace(1.0, sensitivity=domain_of(schema)), 2, schema=schema, ledger=ledger)
    maker.fabricate(TABLE)
    return maker.guarantee_


def released_table(schema: Schema, ledger: Any) -> Any:
    return release_table(TABLE, lam=0.5, schema=schema, ledger=ledger).guarantee


def local_model(schema: Schema, ledger: Any) -> Any:
    noise = AnalyticGaussian(1.0, 1e-5, domain_of(schema), unit="record")
    return LocalModel(mechanism=noise, schema=schema, ledger=ledger).fit(TABLE).guarantee_


def source_of_moments(schema: Schema, ledger: Any) -> Any:
    return PrivateSource.fit(TABLE, mechanism=PrivateMoments(1.0), schema=schema, ledger=ledger).guarantee_


def source_of_rows(schema: Schema, ledger: Any) -> Any:
    noise = Laplace(1.0, sensitivity=domain_of(schema))
    return PrivateSource.fit(TABLE, mechanism=noise, schema=schema, ledger=ledger).guarantee_


PARTIES = SumParties(tuple("abc"), tuple(HolderKey.new(name).public for name in ("p", "q", "r")), 2)


def _summed(schema: Schema, ledger: Any, *how: Any) -> Any:
    total = SchemaSum("r", PARTIES, schema, *how)
    again = SchemaSum.from_bytes(total.to_bytes())
    assert again.schema.to_review == schema.to_review
    if ledger is not None:
        total.total.contribute("a", total.vector(TABLE), Path(), ledger=ledger)
    return again.total.guarantee


def sum_of_moments(schema: Schema, ledger: Any) -> Any:
    return _summed(schema, ledger, "moments")


def sum_in_two_rounds(schema: Schema, ledger: Any) -> Any:
    return _summed(schema, ledger, "moments", 1.0, None, 2)


def sum_of_tables(schema: Schema, ledger: Any) -> Any:
    return _summed(schema, ledger, "tables")


def sum_of_numbers(schema: Schema, ledger: Any) -> Any:
    return _summed(_like(schema, NUMBERS), ledger, "moments")


def _like(schema: Schema, other: Schema) -> Schema:
    """The other schema, confirmed if the first one is."""
    return other if schema.to_review else other.confirm(ground=GROUND, by="anna")


def private_classifier(schema: Schema, ledger: Any) -> Any:
    noise = Laplace(1.0, sensitivity=domain_of(schema))
    return (
        PrivateClassifier(mechanism=noise, n_components=2, schema=schema, ledger=ledger).fit(TABLE).guarantee_
    )


def moment_fabricator(schema: Schema, ledger: Any) -> Any:
    return MomentFabricator(1.0, schema=schema, ledger=ledger).fit(TABLE).guarantee_


def federation_of_moments(schema: Schema, ledger: Any) -> Any:
    sent = MomentFederation(schema, epsilon=1.0).release(TABLE, None, ledger=ledger)
    return PrivateMoments.from_bytes(sent).guarantee_


def numbers_of_a_site(schema: Schema, ledger: Any) -> Any:
    sent = NumberRelease(_like(schema, NUMBERS), 1.0).of(TABLE, ledger=ledger)
    return PrivateMoments.from_bytes(sent).guarantee_


# Each release, and the public callables by which it is made.
RELEASES: dict[Callable[[Schema, Any], Any], tuple[str, ...]] = {
    synthesizer: ("TableSynthesizer",),
    classifier: ("MomentClassifier",),
    regressor: ("MomentRegressor",),
    moments: ("PrivateMoments.fit",),
    moments_of_a_site: ("release_moments",),
    fabricator: ("Fabricator",),
    private_classifier: ("PrivateClassifier",),
    moment_fabricator: ("MomentFabricator",),
    released_table: ("release_table",),
    local_model: ("LocalModel",),
    source_of_moments: ("PrivateSource.fit",),
    source_of_rows: ("PrivateSource.fit",),
    sum_of_moments: ("SchemaSum",),
    sum_in_two_rounds: ("SchemaSum", "MomentSum"),
    sum_of_tables: ("SchemaSum",),
    sum_of_numbers: ("SchemaSum",),
    federation_of_moments: ("MomentFederation",),
    numbers_of_a_site: ("NumberRelease",),
}
# A rehearsal on one machine, which counts nothing, and what takes a release with its own guarantee.
WITHOUT_LEDGER = {"simulate", "simulate_regression"}
TAKES_A_RELEASE = {"Guarantee", "PrivateSource.from_moments"} | {
    f"Moment{kind}.from_moments" for kind in ("Classifier", "Fabricator", "Regressor")
}


def test_everything_that_takes_a_schema_and_adds_noise_is_known() -> None:
    found = set()
    for module in (fabrication, federated, privacy, release, transfer):
        for name in module.__all__:
            given = getattr(module, name)
            parts = [part for part in dir(given) if inspect.isclass(given) and not part.startswith("_")]
            for label, part in [(name, given), *((f"{name}.{part}", getattr(given, part)) for part in parts)]:
                if not callable(part) or label.endswith(".error"):  # the exception that wrong fields raise
                    continue
                names = set(inspect.signature(part).parameters)
                if "schema" in names and names & {"epsilon", "ledger", "mechanism", "moments"}:
                    found.add(label)
    known = {name for names in RELEASES.values() for name in names} - {"PrivateMoments.fit"}
    assert found == known | WITHOUT_LEDGER | TAKES_A_RELEASE


def test_rehearsals_by_guesses_are_void() -> None:
    for schema, holds in ((GUESSES, False), (GUESSES.confirm(ground=GROUND, by="anna"), True)):
        noise = AnalyticGaussian(1.0, 1e-5, domain_of(schema), unit="record")
        given: dict[str, Any] = {"schema": schema, "mechanism": noise, "pooled": False}
        result = simulate(TABLE, None, 2, method="folding", X_test=TABLE, **given)
        assert result.guarantees is not None
        assert all((GUESSED not in each.voided_by) is holds for each in result.guarantees)
        of_numbers: dict[str, Any] = {"schema": _like(schema, NUMBERS), "epsilon": 1.0}
        numbers = simulate_regression(TABLE, n_clients=2, **of_numbers)
        assert numbers.guarantee is not None
        assert (GUESSED not in numbers.guarantee.voided_by) is holds


@pytest.mark.parametrize("made", RELEASES, ids=lambda made: made.__name__)
def test_a_release_by_guesses_is_void_and_holds_once_they_are_confirmed(
    made: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = made(GUESSES, None)
    assert not found.holds
    assert GUESSED in found.voided_by
    ledger = Ledger()
    with pytest.raises(InvalidInputError, match="nobody has confirmed"):
        made(GUESSES, ledger)
    assert not ledger.events
    confirmed = made(GUESSES.confirm(ground=GROUND, by="anna"), None)
    assert confirmed.holds
    assert any(GROUND in condition for condition in confirmed.conditions)


def test_one_guess_among_declared_columns_is_enough() -> None:
    confirmed = GUESSES.confirm(ground=GROUND, by="anna")
    for name in NAMES:
        marked = [replace(f, review="guessed") if f.name == name else f for f in confirmed.fields]
        assert not TableSynthesizer(Schema(marked), 1.0).fit(TABLE).guarantee_.holds
    left_out = Field("note", "string", "ignored", review="guessed: left out because all cells are equal")
    with_guess = Schema([*confirmed.fields, left_out])
    assert not TableSynthesizer(with_guess, 1.0).fit(TABLE | {"note": ["x"] * N}).guarantee_.holds


def test_a_domain_of_guesses_voids_the_noise_alone() -> None:
    for schema, holds in ((GUESSES, False), (GUESSES.confirm(ground=GROUND, by="anna"), True)):
        assert Laplace(1.0, sensitivity=domain_of(schema)).guarantee(schema.width).holds is holds


def test_an_encoder_does_not_take_a_mark_away() -> None:
    schema = Schema([Field("x", low=0, high=1), Field("note", "string", "ignored", review="guessed")])
    encoder = CellEncoder.of_entry({"kind": "text", "digest": "0" * 64, "width": 3})
    assert schema.with_encoders({"note": encoder}).to_review


def test_whoever_receives_a_contract_with_guesses_refuses_it(tmp_path: Path) -> None:
    path = tmp_path / "r.contract"
    given = argparse.Namespace(contract=str(path), digest=None, rows=None, out=str(tmp_path / "m.onefold"))
    SchemaSum("r", PARTIES, GUESSES).save(path)
    with pytest.raises(InvalidInputError, match="nobody has confirmed what was guessed about 'age'"):
        checked_contract(given)
    SchemaSum("r", PARTIES, GUESSES.confirm(ground=GROUND, by="anna")).save(path)
    assert checked_contract(given).total.guarantee.holds


# --- files and messages -------------------------------------------------------------------------------------


def test_marks_and_confirmations_survive_every_way_of_sending_a_schema(tmp_path: Path) -> None:
    half = GUESSES.confirm(["age"], ground=GROUND, by="anna", on="2026-01-31")
    half.save(tmp_path / "s.json")
    model = MomentClassifier(1.0, schema=half).fit(TABLE)
    io.save(model, tmp_path / "m.onefold")
    io.save(TableSynthesizer(half, 1.0).fit(TABLE), tmp_path / "t.onefold")
    LocalModel(schema=half).fit(TABLE).save(tmp_path / "site")
    sent = {
        "file": Schema.load(tmp_path / "s.json"),
        "dict": Schema.from_dict(half.to_dict()),
        "model": io.load(tmp_path / "m.onefold").schema,
        "synthesizer": io.load(tmp_path / "t.onefold").schema,
        "site": LocalModel.load(tmp_path / "site").schema_,
    }
    for schema in sent.values():
        assert schema.to_review == half.to_review
        assert schema.field("age").confirmed == ("anna", "2026-01-31", GROUND, False)
        assert schema.digest == half.digest == GUESSES.digest


@pytest.mark.parametrize(
    "wrong",
    [
        *({}, [], "anna", {"by": "anna", "on": "2026-01-31"}, {"by": "", "on": "x", "ground": "y"}),
        *({"by": "a", "on": "b", "ground": 3}, {"by": "a", "on": "b", "ground": "c", "public": 1}),
        *({"by": "a", "on": "b", "ground": "c", "more": 1}, {"by": "a", "on": "b", "ground": "c" * 501}),
    ],
)
def test_a_malformed_confirmation_is_refused(wrong: Any) -> None:
    plain = {"name": "x", "type": "boolean", "onefold:confirmed": wrong}
    with pytest.raises(InvalidInputError, match="onefold:confirmed"):
        Schema.from_dict({"fields": [plain]})


def test_texts_for_gaps_are_the_same_whatever_the_rows_hold() -> None:
    gaps = TABLE | {"weight": [*map(str, TABLE["weight"][1:]), "n/a"]}
    assert Schema.infer(gaps, "ill").missing_values == GUESSES.missing_values
