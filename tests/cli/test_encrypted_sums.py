"""``onefold federate keys`` and ``sum``: four sites, three key holders, files for transport; no Flower."""

from __future__ import annotations

import csv
import json
import os
import stat
import sys
from pathlib import Path

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.privacy import Ledger
from onefold.tables import Field, Schema

pytest.importorskip("cryptography")

SITES = ("north", "south", "west", "east")
HOLDERS = ("ann", "bob", "cy")
CONTRACT = "share/spring.contract"
FIELDS = [
    Field("age", low=0, high=100),
    Field("ward", "string", levels=("a", "b", "c", "d")),
    Field("ill", "string", role="label", levels=("no", "yes")),
]


def write_rows(path: str, seed: int, n: int = 1000) -> None:
    rng = np.random.default_rng(seed)
    age, ward = rng.integers(0, 100, n), rng.choice(list("abcd"), n)
    ill = np.where(age + 20 * (ward == "a") + rng.normal(0, 8, n) > 60, "yes", "no")
    with Path(path).open("w", newline="") as file:
        csv.writer(file).writerows([["age", "ward", "ill"], *zip(age, ward, ill, strict=True)])


def do(*words: object, code: int = 0) -> None:
    assert main(["federate", *map(str, words)]) == code


def contribute(*sites: str, contract: str = CONTRACT) -> None:
    for site in sites:
        do("sum", "contribute", f"{site}.csv", "--contract", contract, "--site", site, "--folder", site)


def step(name: str, *holders: str, more: tuple[str, ...] = (), code: int = 0, at: str = CONTRACT) -> None:
    for holder in holders:
        do("sum", name, "--contract", at, "--key", f"holders/{holder}.key", *more, code=code)


def new(name: str, *more: object, what: str = "moments", code: int = 0) -> None:
    given = ["--schema", "schema.json", "--holders", "holders/holders.json", "--epsilon", "2"]
    sites = ["--sites", *SITES, "--what", what, "--out", f"share/{name}.contract"]
    do("sum", "new", name, *given, *sites, *more, code=code)


def error(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """Four tables, three keys, and the contract of a round that one site may miss."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "flwr", None)  # nothing here needs it
    for number, site in enumerate(SITES):
        write_rows(f"{site}.csv", number)
    write_rows("new.csv", 99)
    Schema(FIELDS, rows_about=4000).save("schema.json")
    (tmp_path / "share").mkdir()
    do("keys", "init", "--holders", *HOLDERS, "--threshold", 2)
    new("spring", "--missing", 1)
    capsys.readouterr()
    return tmp_path


def test_opened_model_predicts_and_has_its_guarantee(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contribute(*SITES)
    step("sign", *HOLDERS)
    step("answer", *HOLDERS)
    capsys.readouterr()
    do("sum", "open", "--contract", CONTRACT, "--out", "all.onefold")
    said = capsys.readouterr().out
    assert "epsilon 2 per record" in said
    assert "Provided that at most 0 of 3 key holders collude" in said
    assert "sum of east, north, south, west" in said
    promise = json.loads((here / "all.onefold.guarantee.json").read_text())
    assert promise["n_owners"] == 4
    assert main(["predict", "all.onefold", "new.csv", "--label", "ill", "--out", "p.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.8


def test_opened_model_predicts_numbers_where_the_label_is_one(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fields = [Field("ward", "string", levels=("a", "b", "c", "d"))]
    Schema([*fields, Field("age", role="label", low=0, high=100)], rows_about=4000).save("schema.json")
    for number, site in enumerate((*SITES, "new")):
        rng = np.random.default_rng(number)
        ward = rng.choice(list("abcd"), 1000)
        age = (20 + 40 * (ward == "a") + rng.normal(0, 5, 1000)).clip(0, 100).round(1)
        with Path(f"{site}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["ward", "age"], *zip(ward, age, strict=True)])
    at = "share/ages.contract"
    new("ages")
    contribute(*SITES, contract=at)
    step("sign", *HOLDERS, at=at)
    step("answer", *HOLDERS, at=at)
    capsys.readouterr()
    do("sum", "open", "--contract", at, "--out", "ages.onefold")
    said = capsys.readouterr().out
    assert "epsilon 2 per record" in said
    assert "numbers to predict: fitted to private moments" in said
    assert main(["predict", "ages.onefold", "new.csv", "--label", "age", "--out", "p.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["measures"]["r2"] > 0.8
    new("twice", "--rounds", 2, code=2)
    assert "numbers to predict take one" in error(capsys)


def test_two_rounds_by_files_end_in_a_model_and_are_both_charged(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at = "share/summer.contract"
    new("summer", "--rounds", 2)
    for site in SITES:
        Ledger().save(f"{site}.ledger")
    for number in (1, 2):
        for site in SITES:
            given = ("--contract", at, "--site", site, "--folder", site, "--ledger", f"{site}.ledger")
            do("sum", "contribute", f"{site}.csv", *given)
        step("sign", *HOLDERS, at=at)
        step("answer", *HOLDERS, at=at)
        capsys.readouterr()
        if number == 1:
            do("sum", "open", "--contract", at, "--out", "all.onefold", code=2)
            assert "--out is the contract of the second" in error(capsys)
            do("sum", "open", "--contract", at, "--out", "share/second.contract")
            assert "second of two rounds, after summer-1" in capsys.readouterr().out
            at = "share/second.contract"
            do(
                "sum",
                "contribute",
                "north.csv",
                "--contract",
                at,
                "--site",
                "north",
                "--folder",
                "new",
                code=2,
            )
            assert "no message of the first" in error(capsys)
    do("sum", "open", "--contract", at, "--out", "all.onefold")
    assert "epsilon 2 per record" in capsys.readouterr().out
    for site in SITES:
        names = [event.name for event in Ledger.load(f"{site}.ledger").events]
        assert names == ["encrypted sum summer-1", "encrypted sum summer-2"]
    assert main(["predict", "all.onefold", "new.csv", "--label", "ill", "--out", "p.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.8


def test_opened_tables_are_a_synthetic_table(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new("tables", what="tables")
    at = "share/tables.contract"
    contribute(*SITES, contract=at)
    step("sign", *HOLDERS, at=at)
    step("answer", "ann", "cy", at=at)
    capsys.readouterr()
    do("sum", "open", "--contract", at, "--out", "all.csv", "--json")
    told = json.loads(capsys.readouterr().out)
    assert told["holds"]
    assert not told["checked"]  # exactly two answers
    assert abs(told["rows"] - 4000) < 400
    with (here / "all.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["ward"] for row in rows} <= set("abcd")
    assert json.loads((here / "all.csv.guarantee.json").read_text())["n_owners"] == 4


def test_site_within_the_margin_may_be_missing_if_all_holders_say_so(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute("north", "south", "west")
    capsys.readouterr()
    step("sign", "ann", code=2)
    assert "no message of east: wait, or have all holders sign --without east" in error(capsys)
    step("sign", "ann", "bob", more=("--without", "east"))
    contribute("east")  # too late: what was signed is what is answered
    step("answer", "ann", "bob")
    capsys.readouterr()
    do("sum", "open", "--contract", CONTRACT, "--out", "all.onefold")
    assert "sum of north, south, west, without east" in capsys.readouterr().out


def test_one_missing_site_more_is_told_in_a_line(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contribute("north", "south")
    capsys.readouterr()
    for more in ((), ("--without", "west", "east")):
        step("sign", "ann", more=more, code=2)
        assert "only 2 of 4 sites are there, and 3 are needed" in error(capsys)
    assert not list(here.glob("holders/*.round"))


def test_second_subset_is_refused_for_ever(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contribute(*SITES)
    step("sign", "ann", "bob")
    capsys.readouterr()
    step("sign", "ann", more=("--without", "east"), code=2)
    assert "another list of sites was signed in this round" in error(capsys)
    step("sign", "cy", more=("--without", "east"))
    capsys.readouterr()
    step("answer", "cy", code=2)
    assert "1 holders have signed this list of sites, and 2 are needed" in error(capsys)
    step("answer", "ann", "bob")
    do("sum", "open", "--contract", CONTRACT, "--out", "all.onefold")


def test_answer_needs_a_signature_and_open_needs_answers(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    contribute(*SITES)
    capsys.readouterr()
    step("answer", "ann", code=2)
    assert "this holder signs first" in error(capsys)
    step("sign", *HOLDERS)
    step("answer", "ann")
    capsys.readouterr()
    do("sum", "open", "--contract", CONTRACT, "--out", "all.onefold", code=2)
    assert "only 1 of 3 holders answered, and 2 are needed" in error(capsys)
    assert not Path("all.onefold").exists()


def flip(path: str, place: int = -5) -> None:
    content = bytearray(Path(path).read_bytes())
    content[place] ^= 1
    Path(path).write_bytes(content)


def test_tampered_files_are_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    contribute(*SITES)
    capsys.readouterr()
    flip("share/spring.west.sum")
    step("sign", "ann", code=2)
    assert "spring.west.sum: the message of site west is damaged" in error(capsys)
    contribute("west")  # the kept message again
    Path("share/spring.east.sum").write_bytes(Path("share/spring.west.sum").read_bytes())
    capsys.readouterr()
    step("sign", "ann", code=2)
    assert "spring.east.sum: the message is from another site" in error(capsys)
    contribute("east")
    step("sign", *HOLDERS)
    flip("share/spring.bob.signed", 60)
    flip("share/spring.cy.signed", 60)
    capsys.readouterr()
    step("answer", "ann", code=2)
    assert "1 holders have signed" in error(capsys)
    step("sign", "bob", "cy")
    step("answer", *HOLDERS)
    flip("share/spring.cy.answer")
    capsys.readouterr()
    do("sum", "open", "--contract", CONTRACT, "--out", "all.onefold", code=2)
    assert "the answer of holder cy is damaged" in error(capsys)


def test_message_is_not_kept_where_others_could_delete_it(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    words = ["--contract", CONTRACT, "--site", "north", "--folder", "share/../share"]
    do("sum", "contribute", "north.csv", *words, code=2)
    assert "--folder is the folder of the round" in error(capsys)
    assert os.listdir("share") == ["spring.contract"]


def test_messages_and_keys_of_another_contract_are_refused(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new("summer", "--missing", 1)
    contribute(*SITES)
    contribute("east", contract="share/summer.contract")
    Path("share/spring.east.sum").write_bytes(Path("share/summer.east.sum").read_bytes())
    capsys.readouterr()
    step("sign", "ann", code=2)
    assert "spring.east.sum: the bytes are about another sum" in error(capsys)
    do("keys", "new", "ann", "--folder", "other")
    capsys.readouterr()
    do("sum", "sign", "--contract", CONTRACT, "--key", "other/ann.key", code=2)
    assert "the contract has another key of ann" in error(capsys)


def test_contract_can_be_looked_at_before_anything_is_sent(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = sorted(os.listdir("share"))
    do("keys", "new", "dora", "--folder", "dora", "--json")
    mark = json.loads(capsys.readouterr().out)["fingerprint"]
    do("keys", "contract", "dora/dora.public", "holders/ann.public", "--threshold", 2, "--out", "two.json")
    given = ["--schema", "schema.json", "--holders", "two.json", "--epsilon", "2", "--sites", *SITES]
    do("sum", "new", "two", *given)
    capsys.readouterr()
    do("sum", "show", "two.contract")
    said = capsys.readouterr().out
    assert f"key of dora: fingerprint {mark}" in said
    assert "at least 4 of them" in said
    assert "Provided that at most 1 of 2 key holders collude" in said
    do("sum", "show", "two.contract", "--json")
    assert json.loads(capsys.readouterr().out)["digest"] in said
    assert sorted(os.listdir("share")) == before


def test_contract_that_was_exchanged_on_the_way_is_refused_by_its_digest(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    do("sum", "show", CONTRACT, "--json")
    agreed = json.loads(capsys.readouterr().out)["digest"]
    new("other", "--missing", 2)
    capsys.readouterr()
    os.replace("share/other.contract", CONTRACT)
    words = ("sum", "contribute", "north.csv", "--contract", CONTRACT, "--site", "north", "--folder", "north")
    do(*words, "--digest", agreed[:16], code=2)
    assert "not the contract of the digest" in error(capsys)
    step("sign", "ann", more=("--digest", agreed), code=2)
    assert "not the contract of the digest" in error(capsys)
    assert not list(Path("share").glob("*.sum"))
    do(*words)


def test_changed_contract_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plain = json.loads(Path(CONTRACT).read_text())
    for block in plain["contract"]["blocks"]:
        block["sigma"] /= 4
        block["change"] /= 4
    Path("share/less.contract").write_text(json.dumps(plain))
    words = ["--site", "north", "--folder", "north"]
    do("sum", "contribute", "north.csv", "--contract", "share/less.contract", *words, code=2)
    assert "share/less.contract: the contract does not follow from its schema" in error(capsys)


def test_site_is_charged_once_and_keeps_its_message(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "new", "l.json", "--epsilon", "5"]) == 0
    words = ["--contract", CONTRACT, "--site", "north", "--folder", "north", "--ledger", "l.json"]
    do("sum", "contribute", "north.csv", *words)
    first = Path("share/spring.north.sum").read_bytes()
    assert len(Ledger.load("l.json").events) == 1
    capsys.readouterr()
    do("sum", "contribute", "south.csv", *words)
    assert "made before in this round" in capsys.readouterr().out
    assert Path("share/spring.north.sum").read_bytes() == first
    assert len(Ledger.load("l.json").events) == 1
    new("summer")
    capsys.readouterr()
    words[1] = "share/summer.contract"
    do("sum", "contribute", "north.csv", *words, code=2)
    assert "the limit is 5" in error(capsys)
    assert not Path("share/summer.north.sum").exists()


@pytest.mark.parametrize(
    "words, said",
    [
        (("--site", "far"), "does not take part in the sum"),
        ((), "name this site with --site"),
        (("--site", "north", "--schema", "other.json"), "another schema (field 'age')"),
    ],
)
def test_site_that_does_not_fit_the_contract_is_told_so(
    here: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    Schema([Field("age", low=0, high=90), *FIELDS[1:]], rows_about=4000).save("other.json")
    do("sum", "contribute", "north.csv", "--contract", CONTRACT, "--folder", "north", *words, code=2)
    assert said in error(capsys)


def test_sites_that_sign_need_their_keys(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for site in SITES:
        do("keys", "new", site, "--folder", site)
    given = ["--schema", "schema.json", "--holders", "holders/holders.json", "--epsilon", "2"]
    public = [f"{site}/{site}.public" for site in SITES]
    capsys.readouterr()
    do("sum", "new", "signed", *given, "--sites", *public, "--out", "share/signed.contract")
    assert "in the name of a site" not in capsys.readouterr().out
    at = ["--contract", "share/signed.contract", "--folder", "north"]
    do("sum", "contribute", "north.csv", *at, "--site", "north", code=2)
    assert "give the key of this site" in error(capsys)
    do("sum", "contribute", "north.csv", *at, "--key", "north/north.key")
    do("sum", "new", "mixed", *given, "--sites", "south", *public, code=2)
    assert "of all sites, or names only" in error(capsys)


def test_walk_of_the_document_works_as_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    document = Path(__file__).parents[2] / "docs" / "sums.md"
    part = document.read_text("utf-8").split("## By commands")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("onefold ")]
    assert len(lines) > 10
    monkeypatch.chdir(tmp_path)
    for number, name in enumerate(("north", "south", "west", "new")):
        write_rows(f"{name}.csv", number)
    Schema(FIELDS, rows_about=4000).save("schema.json")
    (tmp_path / "share").mkdir()
    for line in lines:
        assert main(line.split()[1:]) == 0, line
    with (tmp_path / "predictions.csv").open() as file:
        assert len(file.readlines()) == 1001
    pytest.importorskip("seal")
    part = document.read_text("utf-8").split("## One key")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("onefold ")]
    assert len(lines) == 10
    for line in lines:
        assert main(line.split()[1:]) == 0, line
    assert (tmp_path / "autumn.onefold").is_file()


# --- keys -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "holders, threshold, said",
    [
        (["5"], 3, "No holder may collude"),
        (["5"], 4, "At most 2 of them may collude"),
        (["a", "b"], 2, "At most 1 of them may collude"),
    ],
)
def test_threshold_says_what_it_stands(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    holders: list[str],
    threshold: int,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    do("keys", "init", "--holders", *holders, "--threshold", threshold)
    out = capsys.readouterr().out
    assert said in out
    assert "has seen all keys" in out


def test_threshold_that_stands_too_little_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    do("keys", "init", "--holders", 5, "--threshold", 3, "--colluding", 1, code=2)
    assert "use at least 4" in error(capsys)
    do("keys", "init", "--holders", 2, "--threshold", 1, code=2)
    assert "use at least 2" in error(capsys)
    assert not os.listdir(tmp_path)


def test_each_holder_makes_its_own_key_and_contract_collects_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in HOLDERS:
        do("keys", "new", name, "--folder", name)
        secret = (tmp_path / name / f"{name}.key").read_text()
        assert stat.S_IMODE((tmp_path / name / f"{name}.key").stat().st_mode) == 0o600
        assert json.loads(secret)["signing"] not in (tmp_path / name / f"{name}.public").read_text()
    do("keys", "contract", *(f"{name}/{name}.public" for name in HOLDERS), "--threshold", 2)
    assert "seen all keys" not in capsys.readouterr().out
    held = json.loads((tmp_path / "holders.json").read_text())
    assert [each["name"] for each in held["holders"]] == list(HOLDERS)
    do("keys", "new", "ann", "--folder", "ann", code=2)
    assert "is there already" in error(capsys)
    do("keys", "contract", "ann/ann.key", "--threshold", 1, code=2)
    assert "ann/ann.key: damaged, or not a public key" in error(capsys)


# --- one key ------------------------------------------------------------------------------------------------


@pytest.fixture
def one_key(here: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    """The same tables, and one holder with the only key."""
    pytest.importorskip("seal")
    do("keys", "new", "dora", "--scheme", "bfv", "--folder", "dora")
    do("keys", "contract", "dora/dora.public", "--scheme", "bfv", "--out", "holders/holders.json")
    said = capsys.readouterr().out
    assert "One holder has the only key: if it is missing, no sum is opened." in said
    new("autumn", "--missing", 1)
    said = capsys.readouterr().out
    assert "key of dora: fingerprint" in said
    assert "Provided that the key holder does not collude with the server" in said
    return here


def test_one_holder_opens_the_total_and_never_sees_a_message(
    one_key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    at, given = "share/autumn.contract", "dora/autumn.contract"
    contribute("north", "south", "west", contract=at)
    assert "dora could read it, and nobody else" in capsys.readouterr().out
    key = ("--key", "dora/dora.key")
    do("sum", "sign", "--contract", at, *key, code=2)
    assert "share: has messages of sites, each of which the holder of the only key could read" in error(
        capsys
    )
    do("sum", "add", "--contract", at, "--out", "dora", code=2)
    assert "no message of east: wait, or add up --without east" in error(capsys)
    do("sum", "add", "--contract", at, "--out", "share", "--without", "east", code=2)
    assert "which the holder must not see" in error(capsys)
    do("sum", "add", "--contract", at, "--out", "dora", "--without", "east")
    first = (one_key / "dora/autumn.dora.offered").read_bytes()
    do("sum", "add", "--contract", at, "--out", "dora", "--without", "east")
    assert (one_key / "dora/autumn.dora.offered").read_bytes() == first
    assert not list(one_key.glob("dora/*.sum"))
    do("sum", "sign", "--contract", given, *key, "--without", "east", code=2)
    capsys.readouterr()
    do("sum", "sign", "--contract", given, *key)
    assert "signed: the sum of north, south, west;" in capsys.readouterr().out
    do("sum", "answer", "--contract", given, *key)
    capsys.readouterr()
    do("sum", "open", "--contract", given, "--out", "all.onefold")
    said = capsys.readouterr().out
    assert "epsilon 2 per record" in said
    assert "the only holder answered: a wrong answer could not be found" in said
    assert "sum of north, south, west, without east" in said
    assert main(["predict", "all.onefold", "new.csv", "--label", "ill", "--out", "p.csv", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["accuracy"] > 0.8


def test_total_for_the_holder_must_be_there_and_several_holders_need_none(
    one_key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (one_key / "dora/autumn.contract").write_bytes((one_key / "share/autumn.contract").read_bytes())
    do("sum", "sign", "--contract", "dora/autumn.contract", "--key", "dora/dora.key", code=2)
    assert "makes it with onefold federate sum add" in error(capsys)
    do("sum", "add", "--contract", CONTRACT, "--out", "dora", code=2)
    assert "several holders add up themselves" in error(capsys)


def test_trial_keys_of_one_key_are_one(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("seal")
    do("keys", "init", "--scheme", "bfv", "--out", "trial", "--json")
    told = json.loads(capsys.readouterr().out)
    assert (told["scheme"], told["holders"], told["threshold"]) == ("bfv", ["holder1"], 1)
    do("keys", "init", "--scheme", "bfv", "--holders", 2, "--out", "other", code=2)
    assert "--scheme bfv has one key: name one holder" in error(capsys)
    do("keys", "init", "--holders", 3, "--out", "other", code=2)
    assert "--threshold T: say how many" in error(capsys)
    do("keys", "init", "--threshold", 2, "--out", "other", code=2)
    assert "--holders NAME: name the holders" in error(capsys)
    do("keys", "contract", "holders/ann.public", "--scheme", "bfv", "--out", "g.json", code=2)
    assert "holder ann has no key of BFV" in error(capsys)
