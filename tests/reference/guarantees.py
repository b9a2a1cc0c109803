"""Random guarantees, of noises and put together by hand, for properties that every guarantee has."""

from __future__ import annotations

import math
from dataclasses import replace

from hypothesis import strategies as st

from onefold.privacy import AnalyticGaussian, Box, FisherGaussian, Guarantee, Laplace, OptimalNoise
from onefold.privacy.calibration import epsilon_of

SENTENCES = [
    "batches are public",
    "the centre was released before",
    "no person is in two tables",
    "columns were chosen without a look at the rows",
]
epsilons = st.floats(0.01, 40) | st.just(math.inf)
deltas = st.sampled_from([0.0, 1e-9, 1e-6, 1e-3])
pairs = st.tuples(epsilons, deltas)
lists = st.lists(st.sampled_from(SENTENCES), max_size=3, unique=True).map(tuple)


@st.composite
def by_hand(draw: st.DrawFn) -> Guarantee:
    """Any numbers that a guarantee may hold; mu agrees with the pair that it is about."""
    neighbours = draw(st.sampled_from(["replace", "add-remove"]))
    record, person = draw(pairs), draw(st.none() | pairs)
    mu = draw(st.none() | st.floats(0.05, 6))
    widest = record if person is None else person
    if mu is not None and widest[1] > 0:
        exact = (epsilon_of(mu, widest[1]), widest[1])
        record, person = (exact, None) if person is None else (record, exact)
    else:
        mu = None
    unit = draw(st.sampled_from(["entry", "record", "person", "label"]))
    if unit == "label":
        record = (math.inf, 1.0)
        person = mu = None
    labels = draw(pairs) if unit == "label" else draw(st.none() | pairs)
    return Guarantee(
        unit=unit,
        entry=(math.inf, 1.0) if unit == "label" else draw(pairs),
        record=record,
        n_features=draw(st.integers(1, 5)),
        untouched_entries=draw(st.none() | st.just(0.0) | st.floats(0.1, 1e6)),
        labels=labels,
        voided_by=draw(lists),
        mechanism=draw(st.sampled_from(["", "Laplace of scale 2", "AnalyticGaussian of scale 3"])),
        sensitivity=draw(st.none() | st.sampled_from([0.5, 1.0, 3.0])),
        neighbours=neighbours,
        replaced=None if neighbours == "replace" else draw(st.none() | pairs),
        labels_in_record=unit != "label" and labels is not None and draw(st.booleans()),
        n_owners=draw(st.integers(1, 3)),
        person=person,
        rows_per_person=None if person is None else draw(st.none() | st.integers(1, 9)),
        clipped=draw(st.booleans()),
        conditions=draw(lists),
        mu=mu,
    )


@st.composite
def of_noise(draw: st.DrawFn) -> Guarantee:
    """What mechanisms promise."""
    kind = draw(st.sampled_from([Laplace, OptimalNoise, AnalyticGaussian, FisherGaussian]))
    p = draw(st.integers(1, 5))
    options = {
        "sensitivity": draw(st.sampled_from([1.0, 2.5, Box(0.0, 1.0), Box(-1.0, 3.0, p)])),
        "sampler": draw(st.sampled_from(["hardened", "float"])),
    }
    rows = draw(st.none() | st.integers(1, 6))
    if kind is FisherGaussian:
        noise = FisherGaussian(draw(st.floats(1e-4, 1)), **options)
    else:
        unit = draw(st.sampled_from(["entry", "record", "person"]))
        if unit == "person":
            rows = draw(st.integers(1, 6))
            options["rows_per_person"] = rows
        noise = kind(draw(st.floats(0.05, 8)), unit=unit, **options)
    guarantee = noise.guarantee(p, draw(st.none() | st.integers(0, 500)), rows)
    if draw(st.booleans()):
        guarantee = guarantee.with_labels(draw(st.floats(0.1, 5)))
    for sentence in draw(lists):
        guarantee = guarantee.provided(sentence)
    return replace(guarantee, n_owners=draw(st.integers(1, 3)))


guarantees = by_hand() | of_noise()


@st.composite
def of_two_sites(draw: st.DrawFn) -> tuple[Guarantee, Guarantee]:
    """Guarantees for the same unit, features and relation."""
    one, other = draw(guarantees), draw(guarantees)
    if (one.unit == "label") != (other.unit == "label"):
        return one, one.voided("a planted reason")
    changes = {"unit": one.unit, "n_features": one.n_features, "neighbours": one.neighbours}
    if one.labels_in_record and other.labels is None:
        changes["labels"] = one.labels
    changes["replaced"] = None
    return one, replace(other, labels_in_record=one.labels_in_record, **changes)
