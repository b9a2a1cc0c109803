"""``onefold release``: rows in, rows with the least informative noise out, or the curve of what it costs."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from onefold._base.arrays import AnyArray
from onefold._base.files import atomic_write
from onefold.cli import arguments as kinds
from onefold.cli import release_sweep
from onefold.cli.console import busy, print_json, say
from onefold.cli.outputs import STANDARD_OUTPUT, MixedTable, check_table_format, read_mixed
from onefold.cli.tables import Table, labels_of
from onefold.exceptions import FileFormatError, InvalidInputError

if TYPE_CHECKING:
    from onefold.release import TableCodec

Range = tuple[float, float]


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "release",
        description="Add optimal noise to every row of a table so that others can learn from it; columns, "
        "types and ranges survive. Labels and class sizes are released as they are unless --label-epsilon "
        "is given.",
        epilog="Ranges and categories must be known without looking at the data: declare them with --range "
        "or --declared. What is not declared is taken from the data, and the guarantee is marked void.",
    )
    kinds.add_data(parser)
    parser.add_argument("--label", metavar="COL", help="column that others shall learn to predict")
    parser.add_argument(
        "--out", required=True, metavar="OUT", help="table to write, or with --sweep the figure to write"
    )
    kinds.add_ignore(parser)
    kinds.add_output_options(parser)
    _add_noise_options(parser.add_argument_group("noise"))
    _add_column_options(parser.add_argument_group("columns"))
    release_sweep.add_options(parser.add_argument_group("curve"))
    parser.set_defaults(run=run)


def _add_noise_options(group: Any) -> None:
    one = group.add_mutually_exclusive_group()
    one.add_argument(
        "--lam",
        type=kinds.positive,
        metavar="L",
        help="weight of utility against privacy, for columns scaled to [0, 1]",
    )
    one.add_argument(
        "--adversary-error",
        type=column_value,
        metavar="COL=ERROR",
        help="smallest standard error that an estimate of this column may have, in its units",
    )
    one.add_argument(
        "--epsilon",
        type=kinds.positive,
        metavar="E",
        help="epsilon of the guarantee for one record, at --delta",
    )
    one.add_argument(
        "--keep-classifier",
        type=kinds.positive,
        metavar="M",
        help="add noise of variance M that leaves the linear SVM as it is: NOT differentially private",
    )
    group.add_argument(
        "--delta",
        type=kinds.fraction,
        default=1e-5,
        metavar="D",
        help="delta of the guarantee for one record (default: 1e-5)",
    )
    group.add_argument(
        "--hardened", action="store_true", help="draw noise that withstands floating-point attacks"
    )
    kinds.add_label_options(group)


def _add_column_options(group: Any) -> None:
    group.add_argument(
        "--range",
        action="append",
        default=[],
        metavar="COL=LOW:HIGH",
        help="range of a column, known without the data (repeatable)",
    )
    group.add_argument(
        "--allowed",
        action="append",
        default=[],
        metavar="COL=LOW:HIGH",
        help="limits that released values of a column must not leave (repeatable)",
    )
    group.add_argument(
        "--declared",
        metavar="FILE",
        help="JSON file that gives each column its range [low, high] or the list of its texts",
    )


def run(args: argparse.Namespace) -> int:
    """Release, or sweep."""
    noise = NoiseAmount(
        args.lam, args.adversary_error, args.epsilon, args.keep_classifier, args.delta, args.hardened
    )
    labels = Labelling(args.label, args.label_epsilon, args.classes)
    output = Output(args.out, args.json, args.quiet)
    curve = release_sweep.CurveSettings(args.repetitions, args.rows, args.learner, args.seed)
    if args.sweep:
        release_sweep.check(args.data, args.out, args.label, [*noise.given(), *labels.given()])
    else:
        _check(args.data, output, noise, labels, bounded=bool(args.allowed))
    with busy(f"reading {args.data}", args.quiet):
        table = read_mixed(args.data, args.label, args.ignore)
    declared = Declarations.read(args.range, args.allowed, args.declared)
    declared.check(table.features)
    if args.sweep:
        return release_sweep.draw(
            table,
            declared.codec(table.features),
            curve,
            args.delta,
            args.out,
            json=args.json,
            quiet=args.quiet,
        )
    if args.keep_classifier:
        return _keep_classifier(table, args.keep_classifier, args.label, output)
    return _release(table, declared, noise, labels, output)


# --- what the options say ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class NoiseAmount:
    """How much noise: the first that is not None decides; ``delta`` and ``hardened`` go with each."""

    lam: float | None
    adversary_error: tuple[str, float] | None
    epsilon: float | None
    keep_classifier: float | None
    delta: float
    hardened: bool

    def given(self) -> list[str]:
        """Options by which an amount of noise was stated."""
        names = ("lam", "adversary_error", "epsilon", "keep_classifier")
        return [f"--{name.replace('_', '-')}" for name in names if getattr(self, name) is not None]


@dataclass(frozen=True)
class Labelling:
    """Which column holds the labels, and with what epsilon they are randomised."""

    column: str | None
    epsilon: float | None
    classes: list[str] | None

    def given(self) -> list[str]:
        """Options by which noise on labels was asked for."""
        return [] if self.epsilon is None else ["--label-epsilon"]


@dataclass(frozen=True)
class Output:
    """Where the table goes, and what is printed."""

    path: str
    json: bool
    quiet: bool


@dataclass(frozen=True)
class Declarations:
    """What is known about the columns without looking at the data."""

    ranges: dict[str, Range]
    categories: dict[str, tuple[Any, ...]]
    allowed: dict[str, Range]

    @classmethod
    def read(cls, ranges: list[str], allowed: list[str], file: str | None) -> Declarations:
        """Take them from the options and from the file; an option wins against the file."""
        found = cls(
            dict(_column_range("--range", text) for text in ranges),
            {},
            dict(_column_range("--allowed", text) for text in allowed),
        )
        for name, what in ({} if file is None else _read_json(file)).items():
            kind: dict[str, Any] = found.ranges if _is_range(what) else found.categories
            kind.setdefault(name, tuple(what))
        return found

    def check(self, features: Mapping[str, AnyArray]) -> None:
        """Refuse statements about columns that are not released, and ranges without an end."""
        for name in (*self.ranges, *self.categories, *self.allowed):
            if name not in features:
                raise InvalidInputError(
                    f"something is declared about a column that is not released: {name!r}"
                )
        if any(not math.isfinite(value) for pair in self.ranges.values() for value in pair):
            raise InvalidInputError("--range must be finite; --allowed may be infinite")

    def codec(self, features: Mapping[str, AnyArray]) -> TableCodec:
        """The codec for these features."""
        from onefold.release import TableCodec

        return TableCodec(features, self.ranges, self.categories, self.allowed)


def column_value(text: str) -> tuple[str, float]:
    """``COL=NUMBER``, the number positive."""
    name, equals, number = text.rpartition("=")
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if not (name and equals and value > 0 and math.isfinite(value)):
        raise argparse.ArgumentTypeError("must look like COL=NUMBER, with a positive number")
    return name, value


def _column_range(option: str, text: str) -> tuple[str, Range]:
    name, _, numbers = text.rpartition("=")
    low, _, high = numbers.partition(":")
    try:
        pair = float(low), float(high)
    except ValueError:
        pair = (math.nan, math.nan)
    if not (name and pair[0] < pair[1]):
        raise InvalidInputError(f"{option} must look like COL=LOW:HIGH, with LOW below HIGH")
    return name, pair


def _is_range(what: Any) -> bool:
    numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in what)
    return len(what) == 2 and numbers and what[0] < what[1]


def _read_json(path: str) -> dict[str, list[Any]]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"{path}: {error.strerror or 'cannot be read'}") from None
    except ValueError:
        raise FileFormatError(f"{path}: not a JSON file") from None
    if not isinstance(content, dict) or not all(isinstance(v, list) and v for v in content.values()):
        raise FileFormatError(f"{path}: must hold column -> [low, high], or column -> list of texts")
    return content


def _check(data: str, output: Output, noise: NoiseAmount, labels: Labelling, *, bounded: bool) -> None:
    check_table_format(output.path, data)
    if output.path == STANDARD_OUTPUT:
        raise InvalidInputError("--out - has no place for the guarantee: name a file")
    if not noise.given():
        raise InvalidInputError(
            "say how much noise: --lam, --adversary-error, --epsilon (or --sweep to see what it costs)"
        )
    if labels.column is None and (labels.epsilon or noise.keep_classifier):
        raise InvalidInputError("--label-epsilon and --keep-classifier need --label")
    kinds.check_label_options(labels.epsilon, labels.classes)
    if bounded and noise.keep_classifier:
        raise InvalidInputError("--allowed takes bounded noise, which does not keep the classifier")
    if noise.keep_classifier and (noise.hardened or labels.epsilon):
        raise InvalidInputError("--keep-classifier goes with neither --hardened nor --label-epsilon")


# --- the release ------------------------------------------------------------------------------------------


def _release(
    table: MixedTable, declared: Declarations, noise: NoiseAmount, labels: Labelling, output: Output
) -> int:
    from onefold.release import release_table

    codec = declared.codec(table.features)
    bounded = bool(declared.allowed)
    with busy("looking for noise of this strength", output.quiet):
        strength = _strength(noise, codec, bounded)
    made = release_table(
        table.features, codec, strength.lam, bounded=bounded, delta=noise.delta, hardened=noise.hardened
    )
    guarantee, released = made.guarantee, None
    if labels.column is not None:
        released = table.columns[labels.column]
        if labels.epsilon is not None:
            released = _randomised(released, labels)
            guarantee = guarantee.with_labels(labels.epsilon)
    promise = {"lam": strength.lam, **made.to_dict(), **guarantee.to_dict()}
    if not bounded:
        promise["theorem_2_5_of_the_document"] = {
            "epsilon_per_record": strength.documented_epsilon,
            "note": "for comparison only; it is too small for weak noise",
        }
    table.write(output.path, made.columns, released)
    return _tell(table, promise, [f"lam {strength.lam:.4g}", str(guarantee), *made.in_words()], output)


def _strength(noise: NoiseAmount, codec: Any, bounded: bool) -> Any:
    """lam, from whatever was said; within bounds an error or an epsilon needs another lam than without."""
    from onefold.release import bounded_lam, bounded_lam_of_epsilon, choose

    options = {"delta": noise.delta, "sensitivity": codec.domain, "hardened": noise.hardened}
    lam, error, epsilon = noise.lam, None, noise.epsilon
    if bounded and epsilon:
        lam, epsilon = bounded_lam_of_epsilon(epsilon, codec.bounds(), **options), None
    if noise.adversary_error:
        name, value = noise.adversary_error
        at, scaled = codec.position(name), value / codec.column(name).width
        low, high = codec.bounds()[at]
        if bounded and np.isfinite(high - low):
            lam = bounded_lam(scaled, (low, high), hardened=noise.hardened)
        else:
            error = at, scaled
    return choose(codec.n_encoded, lam=lam, adversary_error=error, epsilon=epsilon, **options)


def _randomised(values: AnyArray, labels: Labelling) -> AnyArray:
    """Labels randomised with their own epsilon."""
    if values.dtype.kind == "f" and not np.array_equal(values, np.round(values)):
        raise InvalidInputError("--label-epsilon takes classes, and the label holds fractions")
    mechanism = kinds.label_noise(labels.epsilon, labels.classes, values)
    return np.asarray(mechanism.randomise(values)).astype(values.dtype)


def _keep_classifier(table: MixedTable, variance: float, label: str, output: Output) -> int:
    from onefold.release import RobustSVM, release_utility_preserving
    from onefold.release.releases import in_words

    features = table.features
    texts = [name for name, values in features.items() if values.dtype.kind not in "iuf"]
    if texts:
        raise InvalidInputError(
            f"--keep-classifier needs numbers, column {texts[0]!r} holds text: leave it out with --ignore"
        )
    X = np.column_stack([values.astype(np.float64) for values in features.values()])
    y = labels_of(Table(table.path, None, X, {label: table.columns[label]}, 0), label)
    made = release_utility_preserving(X, y, RobustSVM().fit(X, y), variance)
    if any(values.dtype.kind in "iu" for values in features.values()):
        say("whole numbers become fractions: rounding would move the classifier", output.quiet)
    columns = {name: made.X[:, j] for j, name in enumerate(features)}
    table.write(output.path, columns, table.columns[label])
    words = in_words(made.standard_errors, list(features))
    promise = {
        **made.guarantee.to_dict(),
        "reveals": list(made.reveals),
        "bound_on_the_squared_error_of_a_record": made.bound,
        "least_standard_errors": dict(zip(features, made.standard_errors.tolist(), strict=True)),
        "in_words": words,
    }
    lines = [str(made.guarantee), *(f"Revealed: {what}." for what in made.reveals), *words]
    return _tell(table, promise, lines, output)


def _tell(table: MixedTable, promise: dict[str, Any], lines: list[str], output: Output) -> int:
    path = f"{output.path}.guarantee.json"
    with atomic_write(path) as file:
        file.write(json.dumps(promise, indent=1, ensure_ascii=False).encode())
    rows = len(next(iter(table.columns.values())))
    result = {"table": output.path, "rows": rows, "guarantee": path, "holds": promise["holds"]}
    if output.json:
        print_json(result | {"promise": promise})
    elif not output.quiet:
        print("\n".join([f"{rows} rows written to {output.path}, their guarantee to {path}", *lines]))
    return 0
