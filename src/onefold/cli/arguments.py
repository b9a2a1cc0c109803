"""Options of the command line that several commands share, and the objects that they describe.

:func:`option` and :func:`flag` declare an option. Then come the types of values, each of which refuses what
no command could use, and the options for tables, noise, encoders and classifiers.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold.cli.console import busy
from onefold.exceptions import InvalidInputError
from onefold.tables import Schema
from onefold.tables.rows import Mode, Rows, rows
from onefold.tables.schema import AS_THEY_STAND
from onefold.tables.tasks import CLASSES, as_labels

# --- declaring options ------------------------------------------------------------------------------------


def option(parser: Any, names: str, about: str, kind: Any = None, default: Any = None, **more: Any) -> None:
    """Declare an option that takes a value.

    ``names`` are the spellings of the option, then what stands for its value: ``"--sites N"``, or
    ``"--range LOW HIGH"`` for two values. The help line ends with the default, if there is one.
    """
    words = names.split()
    values = tuple(word for word in words if not word.startswith("-"))
    if len(values) > 1:
        more |= {"nargs": len(values), "metavar": values}
    elif values:
        more["metavar"] = values[0]
    if default not in (None, []):
        shown = f"{default:g}".replace("e-0", "e-") if isinstance(default, float) else default
        about += f" (default: {shown})"
    flags = words[: len(words) - len(values)]
    parser.add_argument(*flags, help=about, type=kind, default=default, **more)


def repeated(parser: Any, names: str, about: str, kind: Any = None, **more: Any) -> None:
    """Declare an option that may be given several times."""
    option(parser, names, f"{about} (repeatable)", kind, [], action="append", **more)


def flag(parser: Any, names: str, about: str) -> None:
    """Declare an option without a value."""
    parser.add_argument(*names.split(), action="store_true", help=about)


def refuse(args: Any, usual: Mapping[str, Any], message: str) -> None:
    """Refuse options that have another value than the usual one; ``{0}`` in the message is the option."""
    for name, value in usual.items():
        if getattr(args, name) not in (value, None, False, []):
            raise InvalidInputError(message.format(f"--{name.replace('_', '-')}"))


# --- types of values --------------------------------------------------------------------------------------


def _value(convert: Callable[[str], Any], accept: Callable[[Any], bool], wanted: str) -> Callable[[str], Any]:
    """A type of values: what ``convert`` understands and ``accept`` takes."""

    def value_of(text: str) -> Any:
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not accept(value):
            raise argparse.ArgumentTypeError(f"must be {wanted}")
        return value

    return value_of


whole = _value(int, lambda value: value >= 1, "a whole number from 1 on")
seed = _value(int, lambda value: 0 <= value < 2**32, "a whole number from 0 to 4294967295")
jobs = _value(int, lambda value: value == -1 or value >= 1, "-1 or a whole number from 1 on")
fraction = _value(float, lambda value: 0 < value < 1, "a number between 0 and 1")
chance = _value(float, lambda value: 0 <= value < 1, "a number from 0 to below 1")
positive = _value(float, lambda value: 0 < value < math.inf, "a positive number")
not_negative = _value(float, lambda value: 0 <= value < math.inf, "a number from 0 on")
scale = _value(
    lambda text: text if text in ("none", "auto") else float(text),
    lambda value: isinstance(value, str) or 0 < value < math.inf,
    "none, auto or a positive number",
)
stopping = _value(
    lambda text: text if text in ("honest", "documented") else int(text),
    lambda value: isinstance(value, str) or value >= 0,
    "honest, documented or a number of steps",
)
key_id = _value(
    str, lambda value: bool(re.fullmatch("[0-9a-f]{64}", value)), "the id of a key: 64 hexadecimal digits"
)
named_path = _value(lambda text: text.partition("=")[::2], all, "COLUMN=PATH")  # of its encoder
column_value = _value(
    lambda text: (text.rpartition("=")[0], float(text.rpartition("=")[2])),
    lambda pair: pair[0] != "" and 0 < pair[1] < math.inf,
    "COL=NUMBER, with a positive number",
)


# --- options that many commands have ----------------------------------------------------------------------


TABLES = (
    "a .csv, .npz or .parquet file, a folder of .parquet files, or postgresql://USER@HOST/DATABASE#TABLE or "
    "sqlite:///FILE#TABLE, where #FILE.sql names a file with a SELECT statement"
)


def add_data(parser: Any, what: str = "table to read") -> None:
    """The table a command reads."""
    parser.add_argument("data", metavar="DATA", help=f"{what}: {TABLES}")


def add_schema(parser: Any, what: str = "declares ranges, categories, label and persons") -> None:
    """The declared contract of the table."""
    option(parser, "--schema FILE", f"schema of the table; {what}")


def declared_schema(args: argparse.Namespace, *options: str) -> Any:
    """Read the schema of a command, or that of numbers as they stand without one.

    Options that would say what it says are refused.
    """
    path, encoders = args.schema, encoders_of(args)
    if path is None:
        if encoders:
            raise InvalidInputError("--encoder goes with --schema: it declares the other columns")
        return AS_THEY_STAND
    refuse(args, dict.fromkeys(options), "--schema declares what {0} would say: leave out {0}")
    declared = path if isinstance(path, Schema) else Schema.load(path)
    return declared.with_encoders(encoders)


def add_encoders(parser: Any, what: str) -> None:
    """Encoders of columns of texts or image files, by the name of the column."""
    about = f"{what} of texts or image paths: an ONNX file, or the folder of a sentence encoder"
    repeated(parser, "--encoder COL=PATH", about, named_path, dest="encoders")


def encoders_of(args: argparse.Namespace) -> dict[str, str]:
    """The path of the encoder of each column that was named."""
    found: dict[str, str] = {}
    for name, path in getattr(args, "encoders", None) or []:
        if name in found:
            raise InvalidInputError(f"--encoder names column {name!r} twice")
        found[name] = path
    return found


def add_ignore(parser: Any, what: str = "column to leave out") -> None:
    """Columns that are left out."""
    repeated(parser, "--ignore COL", what)


def add_sites(parser: Any) -> None:
    """The number of sites in a simulation."""
    option(parser, "--sites N", "number of sites", whole, 5)


def ends(parser: Any, run: Callable[[Any], int | None], *, quiet: bool = True, **more: Any) -> None:
    """What a command prints, and what it runs."""
    flag(parser, "--json", "print the result as JSON")
    if quiet:
        flag(parser, "--quiet", "print nothing but warnings and errors")
    parser.set_defaults(run=run, **more)


# --- noise on rows and labels -----------------------------------------------------------------------------

UNIT = (
    "what epsilon protects: one entry of the table; a record (a row), which needs --range; or a person (all "
    "rows of one), which needs --range and --person"
)
RANGE = "least and largest value of a feature, known without the data; others are clipped"
# What a schema says; each of these options beside one would contradict it, or repeat it.
BY_SCHEMA = ("label", "ignore", "classes", "range", "sensitivity", "person", "rows_per_person")
NO_DOMAIN = (
    "noise needs --range LOW HIGH (values are clipped to it), --schema FILE or --sensitivity S (the largest "
    "change of an entry, on your word), known without looking at the data"
)
NOT_COUNTED = "Nothing was entered in a ledger: --ledger FILE adds up what is spent on the same rows."


@dataclass(frozen=True)
class NoiseOptions:
    """What the options of :func:`add_noise_options` and :func:`add_person_options` say."""

    epsilon: float
    delta: float
    unit: str
    noise: str
    range: tuple[float, float] | None
    sensitivity: float | None
    sampler: str
    label_epsilon: float | None
    classes: list[str] | None
    person: str | None
    rows_per_person: int | None
    domain: Any = None  # of the rows that a schema encodes

    @classmethod
    def of(cls, args: argparse.Namespace) -> NoiseOptions:
        """Take the options from the command line; a command need not have those about persons."""
        given: dict[str, Any] = {field.name: getattr(args, field.name, None) for field in fields(cls)}
        return cls(**given)

    def by_schema(self, schema: Any) -> NoiseOptions:
        """The same with the domain, classes and persons that a schema declares; nothing without noise."""
        from onefold.privacy import domain_of

        if self.epsilon is None or schema.plain:
            return self
        found = replace(self, domain=domain_of(schema))
        if schema.classes is not None:
            found = replace(found, classes=[str(level) for level in schema.classes])
        if schema.person is None or schema.rows_per_person is None:
            return found
        return replace(found, person=schema.person.name, rows_per_person=schema.rows_per_person)

    def check(self) -> None:
        """Refuse noise without a domain, and what contradicts itself, before any data is read."""
        of_rows = self.range is not None or self.domain is not None
        if self.epsilon is not None and self.sensitivity is None and not of_rows:
            raise InvalidInputError(NO_DOMAIN)
        check_range(self.range)
        if self.unit != "entry" and not of_rows:
            raise InvalidInputError(
                f"--unit {self.unit} needs --range LOW HIGH: the size of a row depends on it"
            )
        self.check_person()
        check_label_options(self.label_epsilon, self.classes)

    def check_person(self) -> None:
        """Refuse persons without a limit on their rows, and a limit without persons."""
        check_person_options(self.person, self.rows_per_person)
        if self.unit == "person" and self.person is None:
            needed = "--person COL and --rows-per-person K"
            if self.domain is not None:
                needed = "a schema with a person column and rowsPerPerson"
            raise InvalidInputError(f"--unit person needs {needed}")

    def rows_of(
        self, path: str, schema: Schema, label: str | None, ignore: list[str], *, quiet: bool, mode: Mode
    ) -> Rows:
        """A table by its schema, or numbers as they stand with labels in the type of declared classes."""
        if self.person is not None and self.person == label:
            raise InvalidInputError("--person and --label name the same column")
        given: dict[str, Any] = {"label": label, "ignore": ignore, "person": self.person}
        with busy(f"reading {path}", quiet):
            found = rows(path, schema, **(given if schema.plain else {}), mode=mode, task=CLASSES.name)
        if schema.plain and self.epsilon is not None:
            # A single record may be why a file keeps a column in another type.
            found = replace(found, X=np.asarray(found.X, dtype=np.float64))
        if found.y is None or self.classes is None:
            return found
        return replace(found, y=declared_labels(found.y, self.classes))

    def persons(self, found: Rows) -> Any:
        """Whom each row is about, where --person says it; None leaves it to the schema."""
        return None if self.person is None or not found.schema.plain else found.persons

    def mechanism(self, n_features: int) -> Any:
        """The mechanism for rows of ``n_features`` entries."""
        from onefold.privacy import AnalyticGaussian, Box, Laplace, OptimalNoise

        size = self.sensitivity if self.range is None else Box(*self.range, n_features)
        shared: dict[str, Any] = {"unit": self.unit, "sampler": self.sampler}
        shared |= {"sensitivity": self.domain or size, "rows_per_person": self.rows_per_person}
        if self.noise == "laplace":
            return Laplace(self.epsilon, **shared)
        kind = OptimalNoise if self.noise == "optimal" else AnalyticGaussian
        return kind(self.epsilon, self.delta, **shared)

    def label_mechanism(self, schema: Schema) -> Any:
        """The mechanism for the labels; None unless it was asked for."""
        from onefold.privacy import RandomisedLabels

        if self.label_epsilon is None:
            return None
        classes = declared_classes(self.classes or []) if schema.plain else np.asarray(schema.classes)
        return RandomisedLabels(self.label_epsilon, classes)


def add_noise_options(
    group: Any, *, required: bool, unit: str | None = "entry", about_unit: str = UNIT
) -> None:
    """How much noise, of which kind, and for what; :meth:`NoiseOptions.check` requires a domain.

    A command that decides by itself what is protected by default says so with ``unit`` None.
    """
    about = "epsilon of the guarantee; --unit says for what"
    option(group, "--epsilon E", about, positive, required=required)
    option(group, "--delta D", "delta of the guarantee; 0 for optimal noise without one", chance, 1e-5)
    option(group, "--unit", about_unit, default=unit, choices=("entry", "record", "person"))
    option(group, "--noise", "kind of noise", default="optimal", choices=("optimal", "laplace", "gaussian"))
    bound = group.add_mutually_exclusive_group()
    option(bound, "--range LOW HIGH", RANGE, float)
    largest = "largest change of one entry, instead of --range; nothing checks it"
    option(bound, "--sensitivity S", largest, positive)
    add_sampler(group)
    add_label_epsilon(group, "; needs --classes")
    declared = "all labels that may occur, known without looking at the data"
    option(group, "--classes C", declared, nargs="+")


def add_ledger(group: Any) -> None:
    """The account that a release is entered in."""
    option(group, "--ledger FILE", "ledger in which the release is entered before it is made")


def add_neighbours(group: Any, usual: str) -> None:
    """How neighbouring tables differ."""
    about = "how neighbouring tables differ in a record or person"
    option(group, "--neighbours", about, default=usual, choices=("replace", "add-remove"))


def add_label_epsilon(group: Any, more: str = "") -> None:
    """Noise on labels."""
    what = f"epsilon of noise on one label{more} (default: labels stay as they are)"
    option(group, "--label-epsilon E", what, positive)


def check_range(limits: tuple[float, float] | None) -> None:
    """Refuse limits between which nothing lies."""
    if limits is not None and not -math.inf < limits[0] < limits[1] < math.inf:
        raise InvalidInputError("--range LOW HIGH needs two finite numbers, LOW below HIGH")


def add_sampler(group: Any) -> None:
    """How noise is drawn."""
    about = "how noise is drawn; float withstands no attack on its numbers and promises nothing"
    option(group, "--sampler", about, default="hardened", choices=("hardened", "float"))


def add_person_options(group: Any) -> None:
    """Whom each row is about, and how many rows of a person are used."""
    option(group, "--person COL", "column that says whom a row is about, for a promise to persons")
    option(group, "--rows-per-person K", "most rows of a person; others are dropped at random", whole)


def check_person_options(person: str | None, rows_per_person: int | None) -> None:
    """Refuse persons without a limit on their rows, and a limit without persons."""
    if (person is None) != (rows_per_person is None):
        raise InvalidInputError("--person COL and --rows-per-person K go together")


def promise_in_words(guarantee: Any, ledger: str | None = "counted") -> list[str]:
    """The guarantee in sentences, what an attacker can be sure of, and that nothing was counted, if so."""
    covered = [] if guarantee.person is None else ["person"]
    units = dict.fromkeys((guarantee.unit if guarantee.unit != "label" else "record", "record", *covered))
    uncounted = [NOT_COUNTED] if ledger is None and guarantee.holds else []
    return [str(guarantee), *(guarantee.odds(unit) for unit in units), *uncounted]


def check_label_options(label_epsilon: float | None, classes: list[str] | None) -> None:
    """Refuse to randomise labels among labels that were not declared."""
    if label_epsilon is not None and classes is None:
        raise InvalidInputError(
            "--label-epsilon needs --classes: a list taken from the data would tell which labels occur"
        )
    if classes is not None and len(declared_classes(classes)) < 2:
        raise InvalidInputError("--classes needs two labels or more")


def declared_classes(classes: list[str]) -> AnyArray:
    """The declared classes in order: whole numbers if all of them are, else texts, whatever the data hold."""
    return np.unique(as_labels("--classes", np.array(classes, dtype=str)))


def declared_labels(labels: AnyArray, classes: list[str]) -> AnyArray:
    """Labels of the data in the type and width of the declared classes, among which all of them must be."""
    declared = declared_classes(classes)
    if declared.dtype.kind == "U":
        labels = labels.astype(str)
    if labels.dtype.kind != declared.dtype.kind or not np.all(np.isin(labels, declared)):
        raise InvalidInputError("the data has a label that --classes does not name")
    return labels.astype(declared.dtype)


# --- classifiers ------------------------------------------------------------------------------------------

# The names that models have, again: loading a model for them would make every command slow.
WIDEST_HEAD = 1000  # encoded columns
MEASURES = ("euclidean", "rms", "product", "min", "max", "fuzzy")


def add_task(parser: Any, about: str) -> None:
    """Whether a class or a number is predicted."""
    option(parser, "--task", about, choices=("classification", "regression"))


def add_model_options(group: Any, usual: str | None = None) -> None:
    """Which classifier: the options that a model has alone and in a federation.

    A command that decides by itself which model is usual says so in words, and gets None.
    """
    kinds = "wide: deep machines on clusters of rows; folding: one layer on batches of rows"
    said = kinds if usual is None else f"{kinds} (default: {usual})"
    option(group, "--model", said, default="wide" if usual is None else None, choices=("wide", "folding"))
    option(group, "--n-components N", "principal components that each machine uses", whole, 20)
    about = "distance of a row from a class (default: euclidean for wide, rms for folding)"
    option(group, "--measure", about, choices=MEASURES)


def classifier_of(
    model: str,
    *,
    measure: str | None,
    seed: int,
    n_jobs: int | None = None,
    schema: Schema = AS_THEY_STAND,
    tune: bool = False,
    **parameters: Any,
) -> Any:
    """The unfitted classifier that the options describe; ``parameters`` are those of its machines.

    To ``tune``, which no parameters of wide machines go with, is to choose them by held-out rows.
    """
    from onefold import AutoencoderClassifier, FoldingClassifier, WideKAHM

    chosen: dict[str, Any] = {"n_jobs": n_jobs} | ({} if measure is None else {"measure": measure})
    if not schema.plain:
        # Columns of one unit come without a schema: where there is one, even a wide table needs the head.
        chosen |= {"schema": schema, "head": "ridge" if schema.width < WIDEST_HEAD else "auto"}
    if model == "folding":
        return FoldingClassifier(**parameters, **chosen)
    if tune:
        return AutoencoderClassifier(tune="auto", **chosen)
    if chosen.get("head") == "ridge":
        parameters = {"n_layers": 1} | parameters  # where the head decides, more take time only
    return AutoencoderClassifier(WideKAHM(**parameters, random_state=seed), **chosen)
