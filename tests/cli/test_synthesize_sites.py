"""``onefold synthesize`` at several sites: one round by files, joined exactly, refused where sites differ."""

import csv
import json
from dataclasses import replace

import numpy as np
import pytest

from onefold.cli.app import main
from onefold.fabrication import TableCounts
from onefold.privacy import Ledger
from onefold.tables import Field, Schema

AGE = Field("age", "integer", low=0, high=99, bins=(18.0, 40.0, 65.0))
WARD = Field("ward", "string", levels=("a", "b"))
ILL = Field("ill", "boolean", role="label")
OPEN = replace(AGE, bins=())


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Three sites with their tables, a schema with declared bins and one without."""
    monkeypatch.chdir(tmp_path)
    Schema([AGE, WARD, ILL], rows_about=2000).save("schema.json")
    Schema([OPEN, WARD, ILL], rows_about=2000).save("open.json")
    for number, site in enumerate("abc"):
        rng = np.random.default_rng(number)
        rows = zip(
            rng.integers(20, 80, 1500), rng.choice(["a", "b"], 1500), rng.random(1500) < 0.4, strict=True
        )
        with (tmp_path / f"{site}.csv").open("w", newline="") as file:
            csv.writer(file).writerows([["age", "ward", "ill"], *rows])
    return tmp_path


def run(*arguments, code=0):
    assert main(["synthesize", *map(str, arguments)]) == code


def error(capsys):
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    return lines[0]


def test_two_sites_send_one_message_each_and_get_one_table(folder, capsys):
    for site in "ab":
        run(f"{site}.csv", "--schema", "schema.json", "--epsilon", 1, "--counts", f"{site}.counts", "--quiet")
    run("--join", "a.counts", "b.counts", "--schema", "schema.json", "--out", "all.csv")
    said = capsys.readouterr().out
    assert said.startswith("Counts of 2 sites")
    assert "epsilon 1 per record" in said
    quality = json.loads((folder / "all.csv.quality.json").read_text())
    assert abs(quality["rows"] - 3000) < 300
    assert json.loads((folder / "all.csv.guarantee.json").read_text())["n_owners"] == 2


def test_the_worst_site_decides_what_the_sum_promises(folder, capsys):
    for site, epsilon in zip("ab", (0.5, 3), strict=True):
        run(
            f"{site}.csv",
            "--schema",
            "schema.json",
            "--epsilon",
            epsilon,
            "--counts",
            f"{site}.counts",
            "--quiet",
        )
    run("--join", "a.counts", "b.counts", "--schema", "schema.json", "--out", "all.csv", "--json")
    assert json.loads(capsys.readouterr().out)["promise"]["record"]["epsilon"] == 3


def test_a_site_that_leaves_leaves_the_sum_of_the_others_bit_by_bit(folder, capsys):
    for site in "abc":
        run(f"{site}.csv", "--schema", "schema.json", "--epsilon", 1, "--counts", f"{site}.counts", "--quiet")
    names = ["a.counts", "b.counts", "c.counts"]
    run("--join", *names, "--schema", "schema.json", "--counts", "all.counts", "--quiet")
    run(
        "--join",
        "all.counts",
        "--leave",
        "c.counts",
        "--schema",
        "schema.json",
        "--counts",
        "left.counts",
        "--quiet",
    )
    run("--join", *names[:2], "--schema", "schema.json", "--counts", "two.counts", "--quiet")
    left, two = TableCounts.load("left.counts"), TableCounts.load("two.counts")
    np.testing.assert_array_equal(left.vector, two.vector)
    assert left.n_sites == 2
    np.testing.assert_allclose(left.sigmas, two.sigmas)
    run("--join", "a.counts", "--leave", "c.counts", "--schema", "schema.json", "--out", "m.csv", code=2)
    assert "c.counts: these counts are not part of the sum" in error(capsys)


def test_sites_agree_on_bins_in_a_first_message_that_pays_for_the_second_once(folder, capsys):
    Ledger(unit="record", neighbours="add-remove").save("ledger.json")
    spend = ["--schema", "open.json", "--epsilon", 1, "--quiet"]
    run("a.csv", *spend, "--fine", "a.fine", "--ledger", "ledger.json")
    run("b.csv", *spend, "--fine", "b.fine")
    bins = ["--bins-from", "a.fine", "b.fine"]
    run("a.csv", *spend, *bins, "--own", "a.fine", "--counts", "a.counts", "--ledger", "ledger.json")
    assert Ledger.load("ledger.json").total()[0] == pytest.approx(1.0)  # both messages
    run("b.csv", *spend, *bins, "--own", "b.fine", "--counts", "b.counts")
    run("c.csv", *spend, *bins, "--counts", "c.counts")  # joins later, with its whole budget
    first, later = TableCounts.load("a.counts"), TableCounts.load("c.counts")
    assert first.sigmas[1] > later.sigmas[1]
    run("--join", "a.counts", "b.counts", "c.counts", "--schema", "open.json", "--out", "all.csv")
    assert capsys.readouterr().out.startswith("Counts of 3 sites")
    given = ["--join", "a.counts", "b.counts", "c.counts", "--leave", "b.counts", "--schema", "open.json"]
    run(*given, "--out", "two.csv")
    assert "also of sites that left" in capsys.readouterr().out
    run("a.csv", *spend, *bins, "--own", "a.fine", "--counts", "again.counts", code=2)
    assert "used up" in error(capsys)
    assert not (folder / "again.counts").exists()


def test_a_refused_second_message_leaves_its_payment(folder, capsys):
    spend = ["--schema", "open.json", "--quiet"]
    run("a.csv", *spend, "--epsilon", 1, "--fine", "a.fine")
    second = [*spend, "--bins-from", "a.fine", "--own", "a.fine", "--counts", "a.counts"]
    run("a.csv", *second, "--epsilon", 2, code=2)
    assert "another schema or other parameters" in error(capsys)
    run("a.csv", *second, "--epsilon", 1)


def test_a_site_does_not_forget_that_it_has_paid(folder, capsys):
    spend = ["--schema", "open.json", "--epsilon", 1, "--quiet"]
    run("a.csv", *spend, "--fine", "a.fine")
    run("a.csv", *spend, "--bins-from", "a.fine", "--counts", "a.counts", code=2)
    assert "give --own a.fine" in error(capsys)
    assert not (folder / "a.counts").exists()


def test_a_sum_without_agreed_bins_is_refused(folder, capsys):
    run("a.csv", "--schema", "open.json", "--epsilon", 1, "--counts", "a.counts", code=2)
    assert "--fine FILE first" in error(capsys)
    run("a.csv", "--schema", "schema.json", "--epsilon", 1, "--fine", "a.fine", code=2)
    assert "declares all bins" in error(capsys)


def test_the_first_field_that_differs_is_named(folder, capsys):
    other = Schema([AGE, replace(WARD, levels=("a", "b", "c")), ILL], rows_about=2000)
    other.save("other.json")
    for site, schema in zip("ab", ("schema.json", "other.json"), strict=True):
        run(f"{site}.csv", "--schema", schema, "--epsilon", 1, "--counts", f"{site}.counts", "--quiet")
    run("--join", "a.counts", "b.counts", "--schema", "schema.json", "--out", "m.csv", code=2)
    assert "b.counts: made with another schema (field 'ward')" in error(capsys)
    with pytest.raises(Exception, match=r"different schemas \(field 'ward'\)"):
        TableCounts.load("a.counts") + TableCounts.load("b.counts")


def test_sites_with_different_bins_are_refused(folder, capsys):
    spend = ["--schema", "open.json", "--epsilon", 1, "--quiet"]
    for site in "ab":
        run(f"{site}.csv", *spend, "--fine", f"{site}.fine")
        own = ["--bins-from", f"{site}.fine", "--own", f"{site}.fine"]
        run(f"{site}.csv", *spend, *own, "--counts", f"{site}.counts")
    run("--join", "a.counts", "b.counts", "--schema", "open.json", "--out", "m.csv", code=2)
    assert "b.counts: the counts " in error(capsys)
    run("--join", "a.fine", "--schema", "open.json", "--out", "m.csv", code=2)
    assert "fine cells" in error(capsys)
    run("--join", "a.counts", "b.fine", "--schema", "open.json", "--out", "m.csv", code=2)
    assert "b.fine: first messages" in error(capsys)


def test_records_of_a_schema_with_persons_are_joined_too(folder, capsys):
    who = Field("who", "string", role="person")
    Schema([who, AGE, WARD, ILL], rows_per_person=2).save("persons.json")
    text = (folder / "a.csv").read_text().splitlines()
    lines = [f"who,{text[0]}", *(f"p{i // 3},{line}" for i, line in enumerate(text[1:]))]
    (folder / "p.csv").write_text("\n".join(lines) + "\n")
    for unit in ("record", "person"):
        given = ["p.csv", "--schema", "persons.json", "--epsilon", 1, "--unit", unit]
        run(*given, "--counts", f"{unit}.counts", "--quiet")
        run("--join", f"{unit}.counts", "--schema", "persons.json", "--out", "m.csv", "--json")
        assert json.loads(capsys.readouterr().out)["promise"]["unit"] == unit
    run("--join", "record.counts", "person.counts", "--schema", "persons.json", "--out", "m.csv", code=2)
    assert "person.counts:" in error(capsys)


def test_message_sizes_do_not_depend_on_the_rows(folder):
    (folder / "none.csv").write_text("age,ward,ill\n")
    sizes = {}
    for site in ("a", "none"):
        given = [f"{site}.csv", "--epsilon", 1, "--quiet"]
        run(*given, "--schema", "schema.json", "--counts", f"{site}.counts")
        run(*given, "--schema", "open.json", "--fine", f"{site}.fine")
        loaded = [TableCounts.load(f"{site}.{kind}") for kind in ("counts", "fine")]
        sizes[site] = [(c.vector.nbytes, c.sigmas, c.layout, c.guarantee) for c in loaded]
        sizes[site].append((folder / f"{site}.counts").stat().st_size)
    assert sizes["a"] == sizes["none"]


def test_the_same_counts_are_not_added_twice(folder, capsys):
    run("a.csv", "--schema", "schema.json", "--epsilon", 1, "--counts", "a.counts", "--quiet")
    (folder / "copy.counts").write_bytes((folder / "a.counts").read_bytes())
    for twin in ("a.counts", "copy.counts"):
        run("--join", "a.counts", twin, "--schema", "schema.json", "--out", "all.csv", code=2)
        assert "a site is counted once" in error(capsys)
