"""``onefold federate site --send-plain-sums``: what it prints, what it refuses, and how it is taken back."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.cli.app import main
from onefold.federated import LocalModel
from onefold.federated.contract import default_classifier
from onefold.federated.flower import Site
from onefold.federated.flower.folders import ServerFolder, SiteFolder
from onefold.tables import Field, Schema, read_table

SCHEMA = Schema([Field("age", low=0, high=100), Field("sick", "string", "label", levels=("no", "yes"))])
FOLDER = "federation/sites/north"
FIT = ["federate", "site", "rows.csv", "--folder", FOLDER, "--schema", "schema.json", "--fit-only"]
SERVE = ["federate", "site", "--folder", FOLDER, "--fit-only"]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["federate", "init", "--sites", "north", "--insecure", "--most-rows", "50"]) == 0
    ages = np.random.default_rng(0).integers(10, 90, 40)
    lines = [f"{age},{'yes' if age > 50 else 'no'}" for age in ages]
    Path("rows.csv").write_text("\n".join(["age,sick", *lines]) + "\n")
    SCHEMA.save("schema.json")
    capsys.readouterr()


def sums() -> list[Path]:
    """All files of sums that the site keeps, whatever its profile says."""
    return list(SiteFolder(Path(FOLDER)).state.glob("*.sums"))


def test_consent_says_what_plain_sums_reveal_at_every_start(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--send-plain-sums"]) == 0
    first = capsys.readouterr().out
    for words in (
        "PLAIN SUMS LEAVE THIS SITE, NOT PRIVATE",
        "A class with one row sends\nthat row",
        "Neither a minimum number of rows nor encryption is a\nguarantee, only noise is",
        "only answers and plain sums leave",
    ):
        assert words in first
    assert main(SERVE) == 0
    assert "PLAIN SUMS LEAVE THIS SITE" in capsys.readouterr().out
    assert main([*SERVE, "--send-plain-sums", "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["sends_plain_sums"] is True
    assert "PLAIN SUMS LEAVE THIS SITE" in said.err


def test_model_is_that_of_a_simulated_joined_federation(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--send-plain-sums", "--json"]) == 0
    profile = json.loads(capsys.readouterr().out)["profile"]
    estimator = default_classifier(SCHEMA).set_params(measure="euclidean")
    python = LocalModel(estimator, schema=SCHEMA).fit(read_table("rows.csv", schema=SCHEMA))
    assert profile["model_digest"] == python.digest()
    assert profile["measure"] == "euclidean"
    assert profile["sums"] == Site(FOLDER).profile.sums


def test_without_the_flag_no_sums_are_made_and_nothing_is_said_of_them(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*FIT, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["sends_plain_sums"] is False
    assert "PLAIN SUMS" not in said.out + said.err
    assert json.loads(said.out)["profile"].get("sums") is None
    assert sums() == []


@pytest.mark.parametrize(
    "words, hint",
    [
        ([*FIT, "--epsilon", "1"], "does not go with --epsilon"),
        ([*FIT, "--measure", "rms"], "needs --measure euclidean"),
        (
            ["federate", "site", "rows.csv", "--folder", FOLDER, "--label", "sick", "--fit-only"],
            "needs --schema FILE",
        ),
        (SERVE, "was fitted without --send-plain-sums"),
    ],
)
def test_plain_sums_are_refused_in_one_line(
    words: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(FIT) == 0
    before = Site(FOLDER).profile.model_digest
    capsys.readouterr()
    assert main([*words, "--send-plain-sums"]) == 2
    said = capsys.readouterr()
    assert said.err.count("\n") == 1
    assert hint in said.err
    assert Site(FOLDER).profile.model_digest == before
    assert sums() == []


@pytest.mark.parametrize("option", ["--send-answers-only", "--send-encrypted-only"])
def test_only_answers_means_that_sums_are_taken_back(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FIT, "--send-plain-sums", option]) == 0  # said together, both count
    assert len(sums()) == 1
    capsys.readouterr()
    assert main([*SERVE, option]) == 0
    assert "PLAIN SUMS" not in capsys.readouterr().out
    assert sums() == []
    assert Site(FOLDER).profile.sums is None


def test_most_rows_are_kept_in_the_settings_of_the_server() -> None:
    assert ServerFolder(Path("federation/server")).settings.most_rows == 50
