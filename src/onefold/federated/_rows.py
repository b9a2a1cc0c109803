"""The rows a local model rests on (raw, noisy or fabricated), and how they are made of a site's own rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, clone

from onefold._base.arrays import AnyArray, Array, Arrays, Index, Labels
from onefold._base.validation import check_parameters
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.fabrication import Fabricator, PrivateClassifier
from onefold.federated.contract import default_classifier, encoded_table
from onefold.models import AutoencoderClassifier, ClassModels, StackMemory
from onefold.privacy import Guarantee, charge
from onefold.privacy.contract import under_contract
from onefold.privacy.ledger import AnyLedger, all_of
from onefold.privacy.persons import kept_rows, known_persons
from onefold.tables import Schema

GIVEN_BATCHES = "the division into batches was given: it may have been chosen by looking at the raw rows"
PUBLIC_BATCHES = "the given division into batches was chosen without looking at the raw rows"


class RowChecks(ClassifierMixin, BaseEstimator):
    """Holds the number of features and their names, which later rows must have too."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows in the order they came, without those that were forgotten."""

    values: Array  # (n, p) what the classifier is fitted on
    labels: Labels
    numbers: Index  # of each row among all rows that ever came
    batches: Index  # machine of each row within its class
    n_ever: int
    noisy: Array | None = None  # (n, p) what fabricated rows were made of
    clustered: tuple[Any, ...] = ()  # classes that k-means divided by looking at the rows
    partition: str | None = None  # how classes were divided: by the classifier, or "given"; None: not yet

    @classmethod
    def new(cls, values: Array, labels: Labels, noisy: Array | None = None) -> Rows:
        """Rows that have just come, each class in one batch."""
        count = len(values)
        return cls(values, _narrow(labels), np.arange(count), np.zeros(count, dtype=np.intp), count, noisy)

    def without(self, positions: Index) -> Rows:
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

    def with_more(self, more: Rows) -> Rows:
        """These rows and then further ones, in batches of their own."""
        batches = more.batches.copy()
        for label in np.unique(more.labels):
            own = self.batches[self.labels == label]
            batches[more.labels == label] += own.max(initial=-1) + 1
        both = None if self.noisy is None or more.noisy is None else np.concatenate([self.noisy, more.noisy])
        return Rows(
            np.concatenate([self.values, more.values]),
            np.concatenate([self.labels, more.labels]),
            np.concatenate([self.numbers, more.numbers + self.n_ever]),
            np.concatenate([self.batches, batches]),
            self.n_ever + more.n_ever,
            both,
            tuple(dict.fromkeys((*self.clustered, *more.clustered))),
            self.partition,
        )

    def in_batches(self, batches: Index, divided: Labels, partition: str) -> Rows:
        """With new batches for the ``divided`` classes, which were found in this way."""
        clustered = [label for label in self.clustered if label not in divided]
        if partition == "kmeans":
            several = [label for label in divided if batches[self.labels == label].max(initial=0) > 0]
            clustered += [label.item() if isinstance(label, np.generic) else label for label in several]
        return replace(
            self, batches=batches, clustered=tuple(clustered), partition=self.partition or partition
        )

    def to_arrays(self) -> Arrays:
        """As arrays for a file."""
        labels = self.labels.astype(np.str_) if self.labels.dtype == object else self.labels
        found = {
            "values": self.values,
            "labels": labels,
            "numbers": self.numbers,
            "batches": self.batches,
            "n_ever": np.array([self.n_ever]),
            "clustered": np.array(self.clustered, dtype=labels.dtype),
        }
        return found if self.noisy is None else {**found, "noisy": self.noisy}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, AnyArray]) -> Rows:
        """What :meth:`to_arrays` made."""
        try:
            rows = cls(
                arrays["values"],
                arrays["labels"],
                arrays["numbers"].astype(np.intp),
                arrays["batches"].astype(np.intp),
                int(arrays["n_ever"][0]),
                arrays.get("noisy"),
                tuple(arrays["clustered"].tolist()),
            )
        except (KeyError, TypeError, ValueError, IndexError):
            raise FileFormatError("the rows in this file cannot be read") from None
        lengths = {len(rows.values), len(rows.labels), len(rows.numbers), len(rows.batches)}
        if (
            len(lengths) != 1
            or rows.values.ndim != 2
            or (rows.noisy is not None and len(rows.noisy) not in lengths)
        ):
            raise FileFormatError("the rows in this file cannot be read")
        return rows


def _narrow(labels: Labels) -> Labels:
    """Texts no wider than the longest: the width of others, which are gone, would tell that they were there.

    Numpy keeps the width of an array from which the longest text was taken out.
    """
    if labels.dtype.kind != "U" or not len(labels):
        return labels
    return labels.astype(f"U{max(1, np.char.str_len(np.unique(labels)).max())}")


@dataclass(frozen=True, eq=False)
class Given:
    """Rows, labels and persons that a site was given, without rows about nobody."""

    rows: Any
    labels: Any
    person: Any = None
    places: Index | None = None  # of the rows among those given; None for all
    n_given: int = 0

    def count(self, n_rows: int) -> int:
        """How many rows were given, if ``n_rows`` of them are here."""
        return n_rows if self.places is None else self.n_given

    def numbered(self, rows: Rows) -> Rows:
        """Rows with their numbers among those given."""
        if self.places is None:
            return rows
        return replace(rows, numbers=self.places[rows.numbers], n_ever=self.n_given)


@dataclass(frozen=True, eq=False)
class Recipe:
    """How a model comes from rows: which classifier, and which noise. A PrivateClassifier brings both."""

    classifier: Any
    maker: Fabricator | None  # of private rows; None where rows stay raw
    fabricate: bool
    random_state: Any
    memory: StackMemory | None  # of machines, which the next fit may keep; None where rows are not kept
    checks: RowChecks
    ledger: AnyLedger = None  # what noise is entered in before it is drawn
    schema: Schema | None = None  # by which tables become rows

    @classmethod
    def of(cls, model: Any, fitted: Any = None) -> Recipe:
        """The recipe of a LocalModel with these parameters; for rows like those of a fitted classifier."""
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
        checks, memory = RowChecks(), StackMemory() if model.keep_rows else None
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(fitted, name):
                setattr(checks, name, getattr(fitted, name))
        settings = (source.fabricate, source.random_state, memory, checks, ledger, model.schema)
        return cls(classifier, maker, *settings)

    def given(self, X: Any, y: Any, person: Any) -> Given:
        """Rows, labels and persons of what was given; a table is encoded as the schema declares."""
        schema = self.schema
        if schema is None:
            if y is None:
                raise InvalidInputError("y is missing: give the labels, or a schema that names their column")
            return Given(X, y, person)
        if self.maker is None:
            return Given(*encoded_table(schema, X, y), person)
        mechanism = self.maker.mechanism
        rows, labels = encoded_table(schema, X, y, mechanism)
        if person is not None or mechanism.rows_per_person is None or schema.person is None:
            return Given(rows, labels, person)
        persons = schema.persons(X)
        kept = np.flatnonzero(known_persons(persons, len(persons)))  # a row about nobody counts for nobody
        return Given(rows[kept], labels[kept], persons[kept], kept, len(persons))

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
        if self.schema is not None:
            cells = len(self.schema.features)  # an entry is a cell of the table, however it is encoded
            found = under_contract(replace(found, n_features=cells), self.schema)
        if batches == "public":
            return found.provided(PUBLIC_BATCHES)
        return found if batches is None else found.voided(GIVEN_BATCHES)

    def prepare(
        self,
        samples: Array,
        labels: Labels,
        person: Any = None,
        batches: str | None = None,
    ) -> tuple[Rows, Guarantee | None]:
        """Rows as the classifier may see them, each class in one batch yet, and their guarantee.

        Where they belong to persons, without those above the number that a person may have. The ledger counts
        the guarantee before any noise is drawn.
        """
        if self.maker is None:
            if person is not None:
                raise InvalidInputError("person needs a mechanism: without noise nobody is promised anything")
            return Rows.new(samples.copy(), labels.copy()), None
        most, kept = self.maker.mechanism.rows_per_person, None
        if person is not None or most is not None:
            kept = kept_rows(person, most, len(samples), self.random_state)
        used = slice(None) if kept is None else kept
        guarantee = self.promise(samples.shape[1], len(samples[used]), batches)
        if guarantee is not None and self.ledger is not None:
            charge(self.ledger, guarantee, "model of a site")
        rows = self._private(self.maker, samples[used], labels[used])
        return rows if kept is None else replace(rows, numbers=kept, n_ever=len(samples)), guarantee

    def _private(self, maker: Fabricator, samples: Array, labels: Labels) -> Rows:
        rng = None if self.random_state is None else np.random.default_rng(self.random_state)
        noisy: Array | None = None
        if self.fabricate:
            noisy, values = maker.fabricate_checked(samples, labels, rng)
            if maker.stopping == "documented":  # void anyway, and cannot be done again
                noisy = None
        else:
            values = maker.randomise_checked(samples, labels, rng)
        return Rows.new(values, np.asarray(maker.labels_), noisy)

    def smoothed_again(self, rows: Rows, labels: Labels) -> Rows:
        """Rows with these classes fabricated from the noisy rows that are left, without further noise."""
        if self.maker is None:
            raise InvalidInputError("the mechanism is unknown: load the model with like=LocalModel(...)")
        values = rows.values.copy()
        for label in labels:
            mine = np.flatnonzero(rows.labels == label)
            if mine.size and rows.noisy is not None:
                values[mine] = self.maker.smooth_checked(rows.noisy[mine], rows.labels[mine])
        return replace(rows, values=values)

    def unfitted(self) -> Any:
        """A classifier to be fitted."""
        copy = clone(self.classifier) if self.classifier is not None else self._default()
        if getattr(copy, "schema", None) is not None:
            raise InvalidInputError("give the schema to the LocalModel, not to its classifier")
        if not hasattr(copy, "distances") or not hasattr(copy, "measure"):
            raise InvalidInputError(
                "the estimator needs distances(X) and a measure, as onefold's classifiers have"
            )
        return copy

    def _default(self) -> Any:
        return AutoencoderClassifier() if self.schema is None else default_classifier(self.schema)

    def fit(self, rows: Rows, guarantee: Guarantee | None, estimator: Any = None) -> tuple[Any, Rows]:
        """A classifier fitted to these rows, in their batches if they have any, and the rows in its batches.

        Machines that would come out equal are taken from the memory.
        """
        if estimator is None:
            estimator = self.unfitted()
        if not isinstance(estimator, ClassModels):
            estimator.fit(rows.values, rows.labels)
        elif rows.partition is None:
            partition = estimator.partition
            estimator.fit_checked(rows.values, rows.labels, None, self.memory)
            rows = rows.in_batches(estimator.batches_, estimator.classes_, partition)
        else:
            estimator.fit_checked(rows.values, rows.labels, rows.batches, self.memory)
            rows = replace(rows, batches=estimator.batches_)
        if hasattr(self.checks, "feature_names_in_"):
            estimator.feature_names_in_ = self.checks.feature_names_in_
        if guarantee is not None:
            estimator.guarantee_ = guarantee
        return estimator, rows


def partition_of(estimator: Any) -> str:
    """How the classifier divides a class."""
    return estimator.partition if isinstance(estimator, ClassModels) else "single"
