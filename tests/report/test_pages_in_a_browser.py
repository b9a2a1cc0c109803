"""A page of every kind in a real browser: it fits a narrow window, can be read, and fills printed pages."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from tests.browsing import CONTRAST, chromium, narrow, sideways

from experiments.pages import of_experiment
from onefold.audit import distance_attack
from onefold.privacy import AnalyticGaussian, Box, Guarantee, Laplace
from onefold.report import (
    CalibrationDisplay,
    Comparison,
    Entry,
    FoldingDisplay,
    ObservedDisplay,
    Report,
    Section,
    write_report,
)
from onefold.report.builders import HeldOutAccuracy, of_distances, of_model, of_table, of_transfer
from onefold.report.curves import curve_section, noise_forecast, worth
from onefold.report.evaluation import evaluate, evaluate_numbers
from onefold.report.federations import of_comparison, of_federation, of_simulation

SUMS = {"SHA-256 of the model": "0a" * 32, "digest of the schema": "b1" * 32}
CARD = {"intended use": "Ordering calls.", "limits": "Nothing is known about children."}
LEAST = 0.12  # of the height of a printed page that its last one must use


def promise(epsilon: float = 1.0) -> Guarantee:
    columns = Box([0.0] * 5, [1.0] * 5)
    return AnalyticGaussian(epsilon, 1e-5, columns, unit="record").guarantee(n_features=5)


def model(n_classes: int, guarantee: Guarantee | None = None) -> Report:
    rng = np.random.default_rng(0)
    names = np.array([f"readmitted within {place} days" for place in range(n_classes)])
    truth = rng.integers(0, n_classes, 400)
    guess = np.where(rng.random(400) < 0.8, truth, rng.integers(0, n_classes, 400))
    sure = 0.5 * np.eye(n_classes)[guess] + 0.5 / n_classes
    pictures = {
        "Does it know when it errs?": CalibrationDisplay.from_predictions(names[truth], sure, names),
        "How far rows are": FoldingDisplay.from_distances(
            {"own class": rng.random(90), "other": rng.random(90)}
        ),
    }
    facts = {"rows": 400, "columns": [f"a_long_name_of_a_column_{place}" for place in range(30)], **SUMS}
    found = evaluate(names[guess], names[truth])
    return of_model(
        "Model",
        facts,
        evaluation=found,
        evidence=pictures,
        guarantee=guarantee,
        card=CARD if guarantee else None,
    )


def table(guarantee: Guarantee) -> Report:
    curve = noise_forecast(lambda epsilon: Laplace(epsilon, sensitivity=1.0), 2.0, 1.0)
    told = [worth(curve)] if guarantee.holds else []
    quality = [curve_section(curve)] if guarantee.holds else []
    facts = {"table": "private.csv", "rows": 178, "noise": guarantee.mechanism, **SUMS}
    return of_table("Private table private.csv", guarantee, facts, quality=quality, worth=told)


def audit() -> Report:
    rng = np.random.default_rng(0)
    distances = rng.random(200), rng.random(200) + 0.3
    attack = distance_attack(*distances)
    rows = [
        [f"members found at {rate} % false positives, own class", 0.3474, "0.2995 to 0.3976"]
        for rate in (1, 2)
    ]
    notes = ["Training and test rows that differ for another reason look like a leak here."] * 4
    facts = {"model": "m.onefold", **SUMS}
    return of_distances(attack, distances, "Membership audit", facts, rows, notes, "distance")


def transfer(n_sources: int) -> Report:
    experts = Section(
        "Weights of the experts", (), {}, ["expert", "weight"], [("the source as it is", 0.5)] * 6
    )
    told = ["On held-out labelled rows: not shown to be better with the source."]
    promises = [promise(place + 1.0) for place in range(n_sources)]
    return of_transfer(
        "Transfer", dict(SUMS), told, promises, experts, CARD, HeldOutAccuracy(50, 0.96, 0.1, 0.92)
    )


def comparison() -> Report:
    entries = [Entry(f"site {n} alone", "alone", 500, 10, 0.1 + n / 10) for n in (1, 2, 3)]
    entries += [
        Entry("federated, one round", "federated", 1500, 10, 0.99),
        Entry("private", "private", 9, 9, 0.9),
    ]
    lines = str(promise()).split("\n")
    return of_comparison(
        Comparison(
            "Three sites",
            "Digits, spread unequally.",
            entries,
            [str(n) for n in range(10)],
            [list(range(10))] * 3,
            notes=["What travelled: each site sent sums of its samples once, and got scores back."] * 3,
            settings={"classifier": "FoldingClassifier(batch_size=50), joined with ridge and LDA"},
            facts={"test_samples": 451},
            promises={"private": lines},
        )
    )


def simulation() -> Report:
    result = SimpleNamespace(
        alone=(0.64, 0.36, 0.81),
        federated=0.94,
        honest=0.95,
        pooled=0.96,
        classes=np.array(["not readmitted", "readmitted within thirty days"]),
        class_counts=np.array([[36, 0], [0, 82], [1200, 31]]),
        n_test=96,
        majority=0.86,
        gain_interval=(0.02, 0.12),
    )
    sums = "Exact sums of rows travelled, which reveal rows."
    return of_simulation("Federation, simulated", result, {"rule": "min", "seed": 0}, [sums])  # type: ignore[arg-type]


def federation() -> Report:
    plain = promise().to_dict()
    sites = [
        {
            "name": f"hospital-{n}",
            "status": "member" if n else "invited",
            "online": bool(n),
            "last_seen": "2026-01-01T12:00:00+00:00",
            "queries": 12,
            "rows_answered": 1800,
            "guarantee": plain if n else None,
            "model": "c2" * 32,
        }
        for n in range(4)
    ]
    return of_federation("clinics", {"mode": "plain", "rule": "min", "sites": sites}, ["4 sites."])


def experiment() -> Report:
    values = {f"accuracy, epsilon {e}": e / 10 for e in (1, 2, 4, 8)}
    rows = [[f"a setting that has a long name {n}", *(0.9876,) * 8] for n in range(40)]
    tables = [{"title": "Accuracy", "headers": ["setting", *(f"column {n}" for n in range(8))], "rows": rows}]
    return of_experiment({"experiment": "kahm/mnist", "values": values, "tables": tables})


def numbers() -> Report:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=300)
    guess = truth + rng.normal(size=300) / 2
    picture = {"Observed and predicted": ObservedDisplay.from_predictions(truth, guess, "cost (EUR)")}
    found = evaluate_numbers(guess, truth)
    return of_model("Model of numbers", {"rows": 300, **SUMS}, evaluation=found, evidence=picture, card=CARD)


KINDS: dict[str, Callable[[], Report]] = {
    "model": lambda: model(2),
    "model-of-ten-classes": lambda: model(10),
    "model-of-numbers": numbers,
    "private-model": lambda: model(3, promise()),
    "table": lambda: table(promise()),
    "table-with-a-weak-promise": lambda: table(Laplace(2.0, sensitivity=1.0).guarantee(n_features=5)),
    "void-table": lambda: table(promise().voided("ranges were taken from the data")),
    "audit": audit,
    "transfer": lambda: transfer(1),
    "transfer-of-two-sources": lambda: transfer(2),
    "comparison": comparison,
    "simulation": simulation,
    "federation": federation,
    "experiment": experiment,
}

# Parts that reach out of the window or of their section, and not inside of a part that scrolls.
OUTSIDE = """
return [...document.querySelectorAll("main *")].filter((each) => {
  if (each.parentElement.closest(".scroll")) return false;
  const box = each.getBoundingClientRect();
  const around = each.parentElement.closest("section, .verdict")?.getBoundingClientRect();
  return box.right > innerWidth + 1 || (around && box.right > around.right + 1);
}).map((each) => each.outerHTML.slice(0, 90));
"""


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One browser for all pages."""
    with chromium(tmp_path_factory.mktemp("downloads")) as driver:
        yield driver


def printed(browser: Any, path: Path) -> list[float]:
    """The share of each printed page down to which something is written."""
    pdf = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    path.write_bytes(base64.b64decode(pdf["data"]))
    told = subprocess.run(
        ["pdftotext", "-bbox", path, "-"], check=True, capture_output=True, text=True
    ).stdout
    shares = []
    for page in told.split("<page ")[1:]:
        high = float(re.search(r'height="([\d.]+)"', page)[1])  # type: ignore[index]
        words = re.findall(r'yMax="([\d.]+)"', page)
        written = [float(low) for low in words]
        shares.append(max(written, default=0.0) / high)
    return shares


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "table" else pytest.mark.merge) for kind in KINDS]
)
def test_page_fits_a_narrow_window_and_its_printed_pages(window: Any, tmp_path: Path, kind: str) -> None:
    page = tmp_path / "page.html"
    write_report(page, KINDS[kind]())
    narrow(window)
    window.get(page.as_uri())
    assert sideways(window) <= 0
    assert window.execute_script(OUTSIDE) == []
    assert window.execute_script(CONTRAST) == []
    levels = window.execute_script(
        "return [...document.querySelectorAll('h1, h2, h3')].map((each) => Number(each.tagName[1]))"
    )
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    unnamed = "return [...document.querySelectorAll('img')].filter((each) => !each.alt).length"
    assert window.execute_script(unnamed) == 0
    first = window.execute_script("return document.querySelector('h1').nextElementSibling.className")
    assert first.startswith("verdict")
    narrow(window, 1280)
    assert sideways(window) <= 0
    if shutil.which("pdftotext") is not None:
        assert printed(window, tmp_path / "page.pdf")[-1] > LEAST
