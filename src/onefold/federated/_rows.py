"""The rows a local model rests on (raw, noisy or fabricated): how they are made, leave, and come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from onefold._base.arrays import AnyArray, Array, Index, Labels, sizes_of
from onefold._base.records import ArrayField, Record, record
from onefold._base.validation import check_parameters
from onefold.exceptions import InvalidInputError
from onefold.fabrication import Fabricator, PrivateClassifier
from onefold.federated.contract import default_classifier, encoded_table
from onefold.models import AutoencoderClassifier, ClassModels, StackMemory
from onefold.privacy import Guarantee, charge
from onefold.privacy.calibration import epsilon_of
from onefold.privacy.contract import under_contract
from onefold.privacy.ledger import AnyLedger, all_of
from onefold.privacy.persons import kept_rows, known_persons
from onefold.tables import Schema
from onefold.tables.schema import AS_THEY_STAND

NEW_ROWS = "no row that was added had been there before, forgotten or not: it would have noise twice"
GIVEN_BATCHES = "the division into batches was given: it may have been chosen by looking at the raw rows"
PUBLIC_BATCHES = "the given division into batches was chosen without looking at the raw rows"


@record
class SiteRows(Record, kind="rows of a site"):
    """Rows in the order they came, without those that were forgotten."""

    values: Array  # (n, p) what the classifier is fitted on
    labels: Annotated[Labels, ArrayField("fiubUO", (1,))]
    numbers: Index  # of each row among all rows that ever came
    batches: Index  # machine of each row within its class
    n_ever: int
    noisy: Array | None = None  # (n, p) what fabricated rows were made of
    clustered: tuple[Any, ...] = ()  # classes that k-means divided by looking at the rows
    partition: str | None = None  # how classes were divided: by the classifier, or "given"; None: not yet

    def __post_init__(self) -> None:
        sizes_of(self, values="np", labels="n", numbers="n", batches="n", noisy="np")
        if not ((self.numbers >= 0) & (self.numbers < self.n_ever)).all():
            raise InvalidInputError("more rows are numbered than ever came")

    @classmethod
    def new(cls, values: Array, labels: Labels, noisy: Array | None = None) -> SiteRows:
        """Rows that have just come, each class in one batch."""
        count = len(values)
        return cls(values, _narrow(labels), np.arange(count), np.zeros(count, dtype=np.intp), count, noisy)

    def without(self, positions: Index) -> SiteRows:
        """The other rows; the memory of these is let go."""
        kept = np.ones(len(self.values), dtype=bool)
        kept[positions] = False
        return replace(
            self,
            values=self.values[kept],
            labels=_narrow(self.labels[kept]),
            numbers=self.numbers[kept],
            batches=self.batches[kept],
            noisy=None if self.noisy is None else self.noisy[kept],
        )

    def with_more(self, more: SiteRows) -> SiteRows:
        """These rows and then further ones, in batches of their own."""
        batches = more.batches.copy()
        for label in np.unique(more.labels):
            own = self.batches[self.labels == label]
            batches[more.labels == label] += own.max(initial=-1) + 1
        both = None if self.noisy is None or more.noisy is None else np.concatenate([self.noisy, more.noisy])
        return SiteRows(
            np.concatenate([self.values, more.values]),
            np.concatenate([self.labels, more.labels]),
            np.concatenate([self.numbers, more.numbers + self.n_ever]),
            np.concatenate([self.batches, batches]),
            self.n_ever + more.n_ever,
            both,
            tuple(dict.fromkeys((*self.clustered, *more.clustered))),
            self.partition,
        )

    def in_batches(self, batches: Index, divided: Labels, partition: str) -> SiteRows:
        """With new batches for the ``divided`` classes, which were found in this way."""
        clustered = [label for label in self.clustered if label not in divided]
        if partition == "kmeans":
            several = [label for label in divided if batches[self.labels == label].max(initial=0) > 0]
            clustered += [label.item() if isinstance(label, np.generic) else label for label in several]
        return replace(
            self, batches=batches, clustered=tuple(clustered), partition=self.partition or partition
        )


def _narrow(labels: Labels) -> Labels:
    """Texts no wider than the longest: the width of others, which are gone, would tell that they were there.

    Numpy keeps the width of an array from which the longest text was taken out.
    """
    if labels.dtype.kind != "U" or not len(labels):
        return labels
    return labels.astype(f"U{max(1, np.char.str_len(np.unique(labels)).max())}")


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a model comes from rows: which classifier, and which noise. A PrivateClassifier brings both."""

    classifier: Any
    maker: Fabricator | None  # of private rows; None where rows stay raw
    fabricate: bool
    random_state: Any
    memory: StackMemory | None  # of machines, which the next fit may keep; None where rows are not kept
    ledger: AnyLedger = None  # what noise is entered in before it is drawn
    schema: Schema = AS_THEY_STAND  # by which tables become rows

    @classmethod
    def of(cls, model: Any) -> Recipe:
        """The recipe of a LocalModel with these parameters."""
        source, maker = model.estimator, None
        if not isinstance(source, PrivateClassifier):
            if model.label_mechanism is not None and model.mechanism is None:
                raise InvalidInputError("label_mechanism needs a mechanism: raw rows give their labels away")
            if model.mechanism is not None:
                maker = Fabricator(model.mechanism, label_mechanism=model.label_mechanism)
            elif model.ledger is not None:
                raise InvalidInputError("ledger needs a mechanism: a model of raw rows promises nothing")
            classifier, source, ledger = source, model, model.ledger
        else:
            if model.mechanism is not None or model.label_mechanism is not None:
                raise InvalidInputError("a PrivateClassifier has its own mechanism: give only one of the two")
            classifier, ledger = source.classifier, all_of(source.ledger, model.ledger)
            maker = source.maker().set_params(ledger=None)  # the model is entered as a whole
        if maker is not None:
            check_parameters(maker)
        memory = StackMemory() if model.keep_rows else None
        return cls(
            classifier, maker, source.fabricate, source.random_state, memory, ledger, Schema.of(model.schema)
        )

    def given(self, X: Any, y: Any, person: Any) -> tuple[Any, Any, Any, Index | None]:
        """Rows, labels, persons and which rows are about somebody (None: all) of what was given.

        A table is encoded as the schema declares.
        """
        schema = self.schema
        if self.maker is None or schema.plain:
            return *encoded_table(schema, X, y), person, None
        mechanism = self.maker.mechanism
        rows, labels = encoded_table(schema, X, y, mechanism)
        if person is not None or mechanism.rows_per_person is None or schema.person is None:
            return rows, labels, person, None
        persons = schema.persons(X)
        return rows, labels, persons, np.flatnonzero(known_persons(persons, len(persons)))

    def promise(
        self, n_features: int, n_samples: int | None = None, batches: str | None = None
    ) -> Guarantee | None:
        """What a model with noise will promise, before any is drawn; None for raw rows.

        ``batches`` are those of the estimator (None), "given", or given and "public".
        """
        if self.maker is None:
            return None
        noise = self.maker.promise(n_features, n_samples, smoothed=self.fabricate)
        found = noise.seeded(self.random_state)
        if not self.schema.plain:  # an entry is a cell of the table, however it is encoded
            found = replace(found, n_features=len(self.schema.features))
        found = under_contract(found, self.schema)
        if batches == "public":
            return found.provided(PUBLIC_BATCHES)
        return found if batches is None else found.voided(GIVEN_BATCHES)

    def prepare(
        self,
        samples: Array,
        labels: Labels,
        person: Any = None,
        known: Index | None = None,
        batches: str | None = None,
    ) -> tuple[SiteRows, Guarantee | None]:
        """Rows as the classifier may see them, each class in one batch yet, and their guarantee.

        Where they belong to persons, without those above the number that a person may have and without those
        about nobody. The ledger counts the guarantee before any noise is drawn.
        """
        if self.maker is None:
            if person is not None:
                raise InvalidInputError("person needs a mechanism: without noise nobody is promised anything")
            return SiteRows.new(samples.copy(), labels.copy()), None
        most, used = self.maker.mechanism.rows_per_person, np.arange(len(samples)) if known is None else known
        if person is not None or most is not None:
            whom = person if known is None else person[known]
            used = used[kept_rows(whom, most, len(used), self.random_state)]
        guarantee = self.promise(samples.shape[1], len(used), batches)
        if guarantee is not None and self.ledger is not None:
            guarantee = charge(self.ledger, guarantee, "model of a site")
        rows = self._private(self.maker, samples[used], labels[used])
        return replace(rows, numbers=used, n_ever=len(samples)), guarantee

    def _private(self, maker: Fabricator, samples: Array, labels: Labels) -> SiteRows:
        rng = None if self.random_state is None else np.random.default_rng(self.random_state)
        noisy: Array | None = None
        if self.fabricate:
            noisy, values = maker.fabricate_checked(samples, labels, rng)
            if maker.stopping == "documented":  # void anyway, and cannot be done again
                noisy = None
        else:
            values = maker.randomise_checked(samples, labels, rng)
        return SiteRows.new(values, np.asarray(maker.labels_), noisy)

    def smoothed_again(self, rows: SiteRows, labels: Labels) -> SiteRows:
        """Rows with these classes fabricated from the noisy rows that are left, without further noise."""
        if self.maker is None:
            raise InvalidInputError("the mechanism is unknown: load the model with like=LocalModel(...)")
        values = rows.values.copy()
        for label in labels:
            mine = np.flatnonzero(rows.labels == label)
            if mine.size and rows.noisy is not None:
                values[mine] = self.maker.smooth_checked(rows.noisy[mine], rows.labels[mine])
        return replace(rows, values=values)

    def unfitted(self, like: Any = None) -> Any:
        """A classifier to be fitted, to columns of the same names as a fitted one."""
        if self.classifier is not None:
            copy = clone(self.classifier)
        else:
            copy = AutoencoderClassifier() if self.schema.plain else default_classifier(self.schema)
        if getattr(copy, "schema", None) is not None:
            raise InvalidInputError("give the schema to the LocalModel, not to its classifier")
        if not hasattr(copy, "distances") or not hasattr(copy, "measure"):
            raise InvalidInputError(
                "the estimator needs distances(X) and a measure, as onefold's classifiers have"
            )
        if hasattr(like, "feature_names_in_"):
            copy.feature_names_in_ = like.feature_names_in_
        return copy

    def fit(self, rows: SiteRows, guarantee: Guarantee | None, estimator: Any) -> tuple[Any, SiteRows]:
        """Fit a classifier to these rows, in their batches if they have any; the rows in its batches.

        Machines that would come out equal are taken from the memory.
        """
        names = getattr(estimator, "feature_names_in_", None)
        if not isinstance(estimator, ClassModels):
            estimator.fit(rows.values, rows.labels)
        elif rows.partition is None:
            partition = estimator.partition
            estimator.fit_checked(rows.values, rows.labels, None, self.memory)
            rows = rows.in_batches(estimator.batches_, estimator.classes_, partition)
        else:
            estimator.fit_checked(rows.values, rows.labels, rows.batches, self.memory)
            rows = replace(rows, batches=estimator.batches_)
        if names is not None:
            estimator.feature_names_in_ = names
        if guarantee is not None:
            estimator.guarantee_ = guarantee
        return estimator, rows


# --- rows that leave a fitted model and rows that come -----------------------------------------------------


@dataclass(frozen=True)
class Forgotten:
    """What forgetting did.

    Parameters
    ----------
    n_rows : int
        Rows that are gone.
    n_refitted : int
        Machines that were fitted anew, the touched ones and those stacked with them.
    n_kept : int
        Machines that stayed as they were.
    classes_gone : tuple
        Labels of which no row is left.
    exact : bool
        The model is, to the last bit, one that never saw the rows, **and** the division into batches was not
        chosen by looking at them. False when k-means had divided a touched class with these rows: the
        machines are free of them, the borders between the machines are not.
    partition : str
        How the touched classes were divided: "contiguous", "kmeans", "single" or "given".

    See Also
    --------
    LocalModel.forget : Returns it.

    Examples
    --------
    >>> from onefold.federated import LocalModel
    >>> X = [[0.0, 0.1], [0.1, 0.0], [0.9, 1.0], [1.0, 0.9]]
    >>> done = LocalModel().fit(X, ["low", "low", "high", "high"]).forget([2, 3])
    >>> done.n_rows, done.classes_gone, done.exact
    (2, ('high',), True)
    """

    n_rows: int
    n_refitted: int
    n_kept: int
    classes_gone: tuple[Any, ...]
    exact: bool
    partition: str

    @property
    def facts(self) -> dict[str, Any]:
        """What a log may keep of it: neither numbers nor identifiers of rows."""
        return {"rows": self.n_rows, "exact": self.exact, "partition": self.partition}


def without_rows(
    recipe: Recipe, fitted: Any, kept: SiteRows, positions: Index, division: str
) -> tuple[Any, SiteRows, Forgotten]:
    """Fit the classifier of the rows that are left; only machines that had one of the others are fitted anew.

    ``division`` of the classes that lose rows: the "same" batches, divided "anew", or "whole" classes leave.
    """
    touched = np.unique(kept.labels[positions])
    rest = kept.without(positions)
    if not len(rest.values):
        raise InvalidInputError("no row would be left: remove the site from the federation instead")
    estimator, memory, exact = recipe.unfitted(fitted), recipe.memory, True
    if rest.noisy is not None:
        rest = divided(estimator, recipe.smoothed_again(rest, touched), touched)
    elif division == "anew":
        rest = divided(estimator, rest, touched)
    elif division == "same":
        exact = not set(touched.tolist()) & set(kept.clustered)
    gone = tuple(label for label in touched.tolist() if not np.any(rest.labels == label))
    estimator, rest = recipe.fit(rest, getattr(fitted, "guarantee_", None), estimator)
    fitted, same = (0, 0) if memory is None else (memory.n_fitted, memory.n_kept)
    done = Forgotten(len(positions), fitted, same, gone, exact, kept.partition or "single")
    return estimator, rest, done


def with_rows(
    recipe: Recipe, fitted: Any, kept: SiteRows, more: SiteRows, guarantee: Guarantee | None
) -> tuple[Any, SiteRows]:
    """Fit the classifier of these rows and of further ones in batches of their own."""
    estimator, touched = recipe.unfitted(fitted), np.unique(more.labels)
    if kept.noisy is None:
        joined = kept.with_more(divided(estimator, more, touched))
    else:
        joined = divided(estimator, recipe.smoothed_again(kept.with_more(more), touched), touched)
    return recipe.fit(joined, guarantee, estimator)


def divided(estimator: Any, rows: SiteRows, labels: Labels) -> SiteRows:
    """Rows with these classes in the batches that the classifier divides them into."""
    mine = np.flatnonzero(np.isin(rows.labels, labels))
    if not isinstance(estimator, ClassModels) or not mine.size:
        return rows
    batches = rows.batches.copy()
    batches[mine] = estimator.divide(rows.values, rows.labels, mine)
    return rows.in_batches(batches, labels, estimator.partition)


def with_more_rows(one: Guarantee, other: Guarantee) -> Guarantee:
    """The guarantee of rows and of further ones, each with noise of its own.

    A record is among the ones or the others, which is the caller's word. A person may be among both, so what
    persons lose adds up.
    """
    found = one.join(other).provided(NEW_ROWS)
    if one.person is None or other.person is None or found.person is None:
        return found
    rows = (one.rows_per_person or 0) + (other.rows_per_person or 0) or None
    if one.mu is None or other.mu is None or found.mu is None:
        epsilon, delta = (sum(pair) for pair in zip(one.person, other.person, strict=True))
        return replace(found, person=(epsilon, min(1.0, delta)), rows_per_person=rows, mu=None)
    mu, delta = math.nextafter(math.hypot(one.mu, other.mu), math.inf), found.person[1]
    return replace(found, person=(epsilon_of(mu, delta), delta), rows_per_person=rows, mu=mu)


# --- naming rows: by their numbers, or by identifiers that stay with their site ----------------------------


def identifiers(ids: Sequence[Any], n_rows: int, present: Index | slice = slice(None)) -> AnyArray:
    """Identifiers as an array; those of ``present`` rows must be distinct."""
    found = np.asarray(ids)
    if (
        found.shape != (n_rows,)
        or found.dtype.kind not in "OUSiu"
        or len(set(found[present].tolist())) != len(found[present])
    ):
        raise InvalidInputError("ids must be distinct texts or whole numbers, one for each row")
    return found


def more_identifiers(
    known: AnyArray | None,
    present: Index,
    ids: Sequence[Any] | None,
    n_rows: int,
    guarantee: Guarantee | None,
) -> AnyArray | None:
    """Identifiers of all rows that ever came; new ones must differ from those of rows that are there.

    Under noise they must differ from all: a second noisy version of a row would double what it gives away.
    """
    if (ids is None) != (known is None):
        raise InvalidInputError("rows are named by identifiers either always or never")
    if ids is None or known is None:
        return None
    new = identifiers(ids, n_rows)
    taken = known if guarantee is not None else known[present]
    if set(taken.tolist()) & set(new.tolist()):
        again = "had its noise already" if guarantee is not None else "is there already"
        raise InvalidInputError(f"a row with one of these identifiers {again}")
    return np.array([*known.tolist(), *new.tolist()])


def positions_of(wanted: ArrayLike, present: AnyArray, what: str) -> Index:
    """Where the wanted numbers or identifiers are; all must be there, each once."""
    asked = np.asarray(wanted)
    allowed = "iu" if present.dtype.kind in "iu" else "OUSiu"
    if asked.ndim != 1 or asked.size == 0 or asked.dtype.kind not in allowed:
        raise InvalidInputError(f"rows to forget must be a list of {what}, at least one")
    places = {key: place for place, key in enumerate(present.tolist())}
    keys = asked.tolist()
    if len(set(keys)) != len(keys) or any(key not in places for key in keys):
        raise InvalidInputError(f"rows to forget must be distinct {what} of rows that are still there")
    return np.array([places[key] for key in keys], dtype=np.intp)
