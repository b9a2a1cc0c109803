"""``onefold release``: rows in, rows with the least informative noise out, or the curve of what it costs."""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np

from onefold._base.files import atomic_write
from onefold.cli import arguments as kinds
from onefold.cli import release_sweep
from onefold.cli.console import busy, print_json, say
from onefold.cli.labels import labels_of
from onefold.cli.mixed import MixedTable, read_mixed
from onefold.cli.noise import add_label_options, check_label_options, label_noise_of
from onefold.cli.outputs import STANDARD_OUTPUT, check_table_format
from onefold.cli.release_declared import allowed_of, column_value, declared, read_declarations
from onefold.cli.tables import Table
from onefold.exceptions import InvalidInputError


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "release",
        help="publish rows with the least informative noise",
        description="Add optimal noise to every row of a table so that others can learn from it; columns, "
        "types and ranges survive. Labels and class sizes are released as they are unless --label-epsilon "
        "is given.",
        epilog="Ranges and categories must be known without looking at the data: declare them with --range "
        "or --declared. What is not declared is taken from the data, and the guarantee is marked void.",
    )
    parser.add_argument("data", metavar="DATA", help="table of samples: .csv, .npz or .parquet")
    parser.add_argument("--label", metavar="COL", help="column that is to be learnt")
    parser.add_argument("--out", required=True, metavar="OUT", help="table to write, or figure with --sweep")
    parser.add_argument("--ignore", action="append", default=[], metavar="COL", help="column to leave out")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="print nothing but warnings and errors")
    _add_noise_options(parser.add_argument_group("noise"))
    _add_column_options(parser.add_argument_group("columns"))
    release_sweep.add_options(parser.add_argument_group("curve"))
    parser.set_defaults(run=run)


def _add_noise_options(group: Any) -> None:
    one = group.add_mutually_exclusive_group()
    one.add_argument("--lam", type=kinds.positive, metavar="L", help="weight of utility, columns in [0, 1]")
    one.add_argument(
        "--adversary-error",
        type=column_value,
        metavar="COL=ERROR",
        help="least error of an estimate of that column, in its units",
    )
    one.add_argument("--epsilon", type=kinds.positive, metavar="E", help="per record, at --delta")
    one.add_argument(
        "--keep-classifier",
        type=kinds.positive,
        metavar="M",
        help="noise of variance M that leaves the linear SVM as it is: NOT differentially private",
    )
    group.add_argument("--delta", type=kinds.fraction, default=1e-5, metavar="D", help="per record (1e-5)")
    group.add_argument("--hardened", action="store_true", help="noise safe against floating-point attacks")
    add_label_options(group)


def _add_column_options(group: Any) -> None:
    add = group.add_argument
    add("--range", action="append", default=[], metavar="COL=LOW:HIGH", help="declared range of a column")
    add("--allowed", action="append", default=[], metavar="COL=LOW:HIGH", help="noise keeps values in there")
    add("--declared", metavar="FILE", help="JSON: column -> [low, high], or -> list of texts")


def run(args: argparse.Namespace) -> int:
    """Release, or sweep."""
    if args.sweep:
        release_sweep.check(args)
    else:
        _check(args)
    with busy(f"reading {args.data}", args.quiet):
        table = read_mixed(args.data, args.label, args.ignore)
    read_declarations(args, table)
    if args.sweep:
        return release_sweep.run(args, table)
    return _keep_classifier(args, table) if args.keep_classifier else _release(args, table)


def _check(args: argparse.Namespace) -> None:
    check_table_format(args.out, args.data)
    if args.out == STANDARD_OUTPUT:
        raise InvalidInputError("--out - has no place for the guarantee: name a file")
    if not (args.lam or args.adversary_error or args.epsilon or args.keep_classifier):
        raise InvalidInputError(
            "say how much noise: --lam, --adversary-error, --epsilon (or --sweep to see what it costs)"
        )
    if args.label is None and (args.label_epsilon or args.keep_classifier):
        raise InvalidInputError("--label-epsilon and --keep-classifier need --label")
    check_label_options(args)
    if args.allowed and args.keep_classifier:
        raise InvalidInputError("--allowed takes bounded noise, which does not keep the classifier")
    if args.keep_classifier and (args.hardened or args.label_epsilon):
        raise InvalidInputError("--keep-classifier goes with neither --hardened nor --label-epsilon")


def _release(args: argparse.Namespace, table: MixedTable) -> int:
    from onefold.release import release_table

    codec = declared(args, table)
    bounded = bool(allowed_of(args))
    strength = _strength(args, codec, bounded)
    made = release_table(
        table.features, codec, strength.lam, bounded=bounded, delta=args.delta, hardened=args.hardened
    )
    guarantee, labels = made.guarantee, None
    if args.label is not None:
        labels, guarantee = _labels(args, table, guarantee)
    promise = {"lam": strength.lam, **made.to_dict(), **guarantee.to_dict()}
    if not bounded:
        promise["theorem_2_5_of_the_document"] = {
            "epsilon_per_record": strength.documented_epsilon,
            "note": "for comparison only; it is too small for weak noise",
        }
    table.write(args.out, made.columns, labels)
    return _tell(args, table, promise, [f"lam {strength.lam:.4g}", str(guarantee), *made.in_words()])


def _strength(args: argparse.Namespace, codec: Any, bounded: bool) -> Any:
    """lam, from whatever was said; within bounds an error or an epsilon needs another lam than without."""
    from onefold.release import bounded_lam, bounded_lam_of_epsilon, choose

    options = {"delta": args.delta, "sensitivity": codec.domain, "hardened": args.hardened}
    lam, error, epsilon = args.lam, None, args.epsilon
    if bounded and epsilon:
        with busy("looking for noise with this epsilon", args.quiet):
            lam, epsilon = bounded_lam_of_epsilon(epsilon, codec.bounds(), **options), None
    if args.adversary_error:
        name, value = args.adversary_error
        at, scaled = codec.position(name), value / codec.column(name).width
        low, high = codec.bounds()[at]
        if bounded and np.isfinite(high - low):
            lam = bounded_lam(scaled, (low, high), hardened=args.hardened)
        else:
            error = at, scaled
    return choose(codec.n_encoded, lam=lam, adversary_error=error, epsilon=epsilon, **options)


def _labels(args: argparse.Namespace, table: MixedTable, guarantee: Any) -> tuple[Any, Any]:
    """Labels as they are, or randomised with their own epsilon."""
    values = table.columns[args.label]
    if args.label_epsilon is None:
        return values, guarantee
    if values.dtype.kind == "f" and not np.array_equal(values, np.round(values)):
        raise InvalidInputError("--label-epsilon takes classes, and the label holds fractions")
    noisy = np.asarray(label_noise_of(args, values).randomise(values)).astype(values.dtype)
    return noisy, guarantee.with_labels(args.label_epsilon)


def _keep_classifier(args: argparse.Namespace, table: MixedTable) -> int:
    from onefold.release import RobustSVM, release_utility_preserving
    from onefold.release.releases import in_words

    features = table.features
    texts = [name for name, values in features.items() if values.dtype.kind not in "iuf"]
    if texts:
        raise InvalidInputError(
            f"--keep-classifier needs numbers, column {texts[0]!r} holds text: leave it out with --ignore"
        )
    X = np.column_stack([values.astype(np.float64) for values in features.values()])
    plain = Table(table.path, None, X, {args.label: table.columns[args.label]}, 0)
    y = labels_of(plain, args.label)
    svm = RobustSVM().fit(X, y)
    made = release_utility_preserving(X, y, svm, args.keep_classifier)
    if any(values.dtype.kind in "iu" for values in features.values()):
        say("whole numbers become fractions: rounding would move the classifier", args.quiet)
    columns = {name: made.X[:, j] for j, name in enumerate(features)}
    table.write(args.out, columns, table.columns[args.label])
    words = in_words(made.standard_errors, list(features))
    promise = {
        **made.guarantee.to_dict(),
        "reveals": list(made.reveals),
        "bound_on_the_squared_error_of_a_record": made.bound,
        "least_standard_errors": dict(zip(features, made.standard_errors.tolist(), strict=True)),
        "in_words": words,
    }
    lines = [str(made.guarantee), *(f"Revealed: {what}." for what in made.reveals), *words]
    return _tell(args, table, promise, lines)


def _tell(args: argparse.Namespace, table: MixedTable, promise: dict[str, Any], lines: list[str]) -> int:
    path = f"{args.out}.guarantee.json"
    with atomic_write(path) as file:
        file.write(json.dumps(promise, indent=1, ensure_ascii=False).encode())
    rows = len(next(iter(table.columns.values())))
    result = {"table": args.out, "rows": rows, "guarantee": path, "holds": promise["holds"]}
    if args.json:
        print_json(result | {"promise": promise})
    elif not args.quiet:
        print("\n".join([f"{rows} rows written to {args.out}, their guarantee to {path}", *lines]))
    return 0
