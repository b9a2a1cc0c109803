"""``onefold federate keys new`` and ``sum new, show, run``: what needs no running federation; no Flower."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from onefold.cli.app import main
from onefold.federated import HolderKey
from onefold.tables import Field, Schema
from reference.summing import rewritten

pytest.importorskip("cryptography")

SITES = ("north", "south", "west", "east")
HOLDERS = ("ann", "bob", "cy")
CONTRACT = "share/spring.contract"
FIELDS = [
    Field("age", low=0, high=100),
    Field("ward", "string", levels=("a", "b", "c", "d")),
    Field("ill", "string", role="label", levels=("no", "yes")),
]
ROOT = Path(__file__).parents[2]


def do(*words: object, code: int = 0) -> None:
    assert main(["federate", *map(str, words)]) == code


def new(name: str, *more: object, code: int = 0, threshold: int = 2) -> None:
    public = [f"holders/{holder}.public" for holder in HOLDERS]
    given = ["--schema", "schema.json", "--holders", *public, "--threshold", threshold, "--epsilon", "2"]
    do("sum", "new", name, *given, "--sites", *SITES, "--out", f"share/{name}.contract", *more, code=code)


def error(capsys: pytest.CaptureFixture[str]) -> str:
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1, lines
    return lines[0]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    """A schema, three keys, and the contract of a round that one site may miss."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "flwr", None)  # nothing here needs it
    Schema(FIELDS, rows_about=4000).save("schema.json")
    (tmp_path / "share").mkdir()
    for name in HOLDERS:
        do("keys", "new", name, "--folder", "holders")
    new("spring", "--missing", 1)
    capsys.readouterr()
    return tmp_path


def test_each_holder_makes_its_own_key(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in HOLDERS:
        secret = here / "holders" / f"{name}.key"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        key, public = HolderKey.load(secret), secret.with_suffix(".public").read_bytes()
        for part in (key.signing, key.agreement):
            assert part not in public
            assert part.hex().encode() not in public
    do("keys", "new", "ann", "--folder", "holders", code=2)
    assert "is there already" in error(capsys)
    new("secret", "--holders", "holders/ann.key", code=2)
    assert "holders/ann.key: it holds a " in error(capsys)


def test_contract_can_be_looked_at_before_anything_is_sent(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    do("keys", "new", "dora", "--folder", "dora", "--json")
    mark = json.loads(capsys.readouterr().out)["fingerprint"]
    new("two", "--holders", "dora/dora.public", "holders/ann.public")
    before = sorted(os.listdir("share"))
    capsys.readouterr()
    do("sum", "show", "share/two.contract")
    said = capsys.readouterr().out
    assert f"key of dora: fingerprint {mark}" in said
    assert "at least 4 of them" in said
    assert "2 of 2 holders open a sum together: none may be missing." in said
    assert "Provided that at most 1 of 2 key holders collude" in said
    do("sum", "show", "share/two.contract", "--json")
    assert json.loads(capsys.readouterr().out)["digest"] in said
    assert sorted(os.listdir("share")) == before


def test_threshold_that_stands_too_little_writes_nothing(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new("low", "--colluding-holders", 1, code=2)
    assert "threshold 2 of 3 holders is too low if 1 collude" in error(capsys)
    new("low", threshold=1, code=2)
    assert "use at least 2" in error(capsys)
    new("low", threshold=4, code=2)
    assert "threshold is 4, but there are only 3 holders" in error(capsys)
    assert os.listdir("share") == ["spring.contract"]


def test_a_round_has_one_contract_and_sites_sign_all_or_none(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    new("spring", code=2)
    assert "a round has one contract" in error(capsys)
    for site in SITES:
        do("keys", "new", site, "--folder", site)
    public = [f"{site}/{site}.public" for site in SITES]
    capsys.readouterr()
    new("signed", "--sites", *public)
    assert "in the name of a site" not in capsys.readouterr().out
    new("mixed", "--sites", "south", *public, code=2)
    assert "of all sites, or names only" in error(capsys)
    new("persons", "--unit", "person", code=2)
    assert "--unit person needs a column" in error(capsys)


def test_numbers_to_predict_take_one_round(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Schema([FIELDS[1], Field("age", role="label", low=0, high=100)], rows_about=4000).save("schema.json")
    new("ages")
    capsys.readouterr()
    new("twice", "--rounds", 2, code=2)
    assert "numbers to predict take one" in error(capsys)


def test_contract_that_was_exchanged_or_changed_is_refused_before_anybody_is_asked(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    do("sum", "show", CONTRACT, "--json")
    agreed = json.loads(capsys.readouterr().out)["digest"]
    new("other", "--missing", 2)
    capsys.readouterr()
    os.replace("share/other.contract", CONTRACT)
    run = ("sum", "run", "--folder", "nowhere", "--out", "all.onefold")
    do(*run, "--contract", CONTRACT, "--digest", agreed[:16], code=2)
    assert "not the contract of the digest" in error(capsys)

    def with_less_noise(plain: Any) -> None:
        for block in plain["contract"]["blocks"]:
            block["sigma"] /= 4
            block["change"] /= 4

    Path("share/less.contract").write_bytes(rewritten(Path(CONTRACT).read_bytes(), with_less_noise))
    for words in (("sum", "show", "share/less.contract"), (*run, "--contract", "share/less.contract")):
        do(*words, code=2)
        assert "share/less.contract: damaged: the contract does not follow from its schema" in error(capsys)


def test_commands_of_the_document_work_as_written(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = (ROOT / "docs" / "sums.md").read_text("utf-8")
    part = document.split("## By commands")[1].split("\n## ")[0]
    lines = [line for line in part.splitlines() if line.startswith("onefold ")]
    offline = [line for line in lines if " keys new " in line or " sum new " in line or " sum show " in line]
    assert len(offline) > 4
    Path(CONTRACT).unlink()
    for line in offline:
        assert main(line.split()[1:]) == 0, line
    assert Path(CONTRACT).is_file()
