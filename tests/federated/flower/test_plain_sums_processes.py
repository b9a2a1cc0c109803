"""Plain sums with real processes: sites join with them, one leaves, and one does not want to send any."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold.federated import GlobalClassifier, JoinedFederation, LocalModel, simulate
from onefold.federated.contract import default_classifier
from onefold.federated.fhe.argmin import clear_argmin
from onefold.federated.fhe.quantiser import in_every_look
from onefold.federated.flower.site_app import quantised
from onefold.federated.joined_server import declared_agreement
from onefold.federated.messages import Query, QueryKey
from onefold.tables import Field, Schema, read_table

NAMES = ("north", "south", "west")
SCHEMA = Schema(
    (
        Field("age", low=0, high=100),
        Field("pulse", low=40, high=200),
        Field("ward", "string", levels=("a", "b", "c")),
        Field("state", "string", "label", levels=("good", "fair", "bad")),
    )
)


def rows(n: int, seed: int) -> list[dict[str, str]]:
    """Three classes that overlap."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(0, 3, n)
    age = (35 + 12 * kind + 9 * rng.standard_normal(n)).clip(0, 100)
    pulse = (80 + 15 * (kind == 1) + 10 * rng.standard_normal(n)).clip(40, 200)
    ward = np.where(rng.random(n) < 0.6, np.array(["a", "b", "c"])[kind], "c")
    labels = np.array(["good", "fair", "bad"])[kind]
    columns = (np.char.mod("%.2f", age), np.char.mod("%.2f", pulse), ward, labels)
    names = ("age", "pulse", "ward", "state")
    return [dict(zip(names, map(str, cells), strict=True)) for cells in zip(*columns, strict=True)]


def write(path: Path, table: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def columns(table: list[dict[str, str]]) -> dict[str, list[str]]:
    return {name: [row[name] for row in table] for name in table[0]}


def joined(root: Path, *names: str) -> dict[str, LocalModel]:
    """The sites' models in this process, with the scores of a federation that never had others."""
    agreed = declared_agreement(SCHEMA)
    estimator = default_classifier(SCHEMA).set_params(measure="euclidean")
    models = {
        name: LocalModel(estimator, schema=SCHEMA).fit(read_table(root / f"{name}.csv", schema=SCHEMA))
        for name in names
    }
    server = JoinedFederation(agreed)
    for name, model in models.items():
        server.add(name, model.joined_sums(agreed))
    offset = server.publish()
    return {name: model.join(offset) for name, model in models.items()}


def predicted(models: dict[str, LocalModel], table: Any) -> list[str]:
    together = GlobalClassifier()
    for name, model in models.items():
        together.add(name, model)
    return list(together.predict(table).tolist())


def in_whole_numbers(models: dict[str, LocalModel], table: Any, told: dict[str, Any]) -> list[str]:
    """What the numbers that the sites encrypt say in clear."""
    query = Query("q", SCHEMA.transform(table))
    map_ = [told[name] for name in ("bits", "bound", "power", "floor")]
    lock = QueryKey("0" * 64, ("bad", "fair", "good"), *map_, b"no key", told["looks"], tuple(told["knots"]))
    values = np.stack([quantised(model.answer(query, "any"), lock) for model in models.values()])
    wins = in_every_look(clear_argmin(values), lock.looks)
    return list(np.array(lock.classes)[np.argmax(wins, axis=1)].tolist())


@pytest.mark.nightly
def test_sites_join_with_plain_sums_leave_exactly_and_are_never_made_to_send_them(
    make_federation: Any, tmp_path: Path, wait_for: Callable[..., None]
) -> None:
    made = make_federation(tmp_path / "f")
    root, train, test = made.root, rows(1200, 0), rows(150, 1)
    # Many rows, so that a simulation has as many directions as the schema declares.
    parts = [np.flatnonzero(np.arange(1200) % 3 == number) for number in range(3)]
    for name, part in zip(NAMES, parts, strict=True):
        write(root / f"{name}.csv", [train[row] for row in part])
    write(root / "test.csv", test)
    SCHEMA.save(root / "schema.json")
    asked = read_table(root / "test.csv", schema=SCHEMA)

    def site(name: str, *options: object) -> None:
        made.start(name, root / f"{name}.csv", "--schema", root / "schema.json", *options)

    def query(*options: object) -> dict[str, Any]:
        done = made.run("query", root / "test.csv", "--schema", root / "schema.json", "--json", *options)
        assert done.returncode == 0, done.stderr
        return dict(json.loads(done.stdout))

    try:
        made.start("server")
        for name in NAMES[:2]:
            site(name, "--send-plain-sums")
        made.wait_for_members("north", "south")
        said = made.output("north")
        assert "PLAIN SUMS LEAVE THIS SITE" in said
        assert said.index("PLAIN SUMS LEAVE THIS SITE") < said.index("connected")

        # A site whose operator did not say so sends nothing, is told why, and the others go on.
        site("west", "--measure", "euclidean")
        wait_for(lambda: "keeps this site out" in made.output("west"), "west to be told")
        assert "no-sums: the other sites send plain sums" in made.output("west")
        assert made.running.pop("west").wait() == 1
        assert not made.server.sums_of("west").exists()
        assert query()["labels"] == predicted(joined(root, "north", "south"), asked)

        site("west", "--send-plain-sums")
        made.wait_for_members(*NAMES)
        everyone = joined(root, *NAMES)
        told = query()
        assert told["answered"] == list(NAMES)
        assert told["labels"] == predicted(everyone, asked)
        simulated = simulate(
            columns(train),
            None,
            3,
            parts,
            method="joined",  # what sites with plain sums do; "auto" would take the sums alone for a table
            schema=SCHEMA,
            X_test=columns(test),
            y_test=[row["state"] for row in test],
            pooled=False,
        )
        assert told["accuracy"] == simulated.federated
        checked = query("--rule", "checked", "--liars", 1)
        assert checked["answered"] == list(NAMES)

        if find_spec("seal") is not None:
            encrypted = query("--encrypted", "--keys", tmp_path / "keys", "--timeout", 300)
            assert encrypted["labels"] == in_whole_numbers(everyone, asked, encrypted)
            same = np.array(encrypted["labels"]) == np.array(told["labels"])
            assert np.mean(same) > 0.98  # the map is no bad choice

        assert made.run("remove", "south").returncode == 0
        two = query()
        assert two["answered"] == ["north", "west"]
        assert two["labels"] == predicted(joined(root, "north", "west"), asked)
        out = tmp_path / "two.npz"
        query("--measures", "--out", out)
        together = GlobalClassifier()
        for name, model in joined(root, "north", "west").items():
            together.add(name, model)
        with np.load(out) as found:  # to the last bit: as if the site had never been there
            np.testing.assert_array_equal(found["measures"], together.measures(asked))
    finally:
        made.close()
