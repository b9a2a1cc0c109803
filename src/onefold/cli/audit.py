"""``onefold audit``: what does a stored model give away, and do onefold's own releases keep their claims?"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill
from typing import Any

import numpy as np

from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.arguments import option
from onefold.cli.console import busy, show
from onefold.cli.models import load_classifier, read_rows
from onefold.exceptions import InvalidInputError
from onefold.report.builders import NOT_PRIVATE

WIDTH = 88
FEWEST_ROWS = 5
FEWEST_RELEASES = 64
SAMPLE = (50_000, 3000, 3000)  # most synthetic rows, training rows and test rows that are compared
TABLE_NOTES = (
    "An AUC of 0.5 is guessing: this attacker cannot tell rows that the table was made from.",
    "The attack is a simple one. A guarantee of the table bounds all attacks; this number bounds none.",
    "Training and test rows must be of the same kind: otherwise their difference is measured.",
    NOT_PRIVATE,
)
UNITS = ("entry", "record", "person", "label")


def add_parser(commands: Any) -> None:
    """Declare the command."""
    parser = commands.add_parser(
        "audit",
        description="Attack a stored classifier: compare its distances to the rows it was fitted on with "
        "those to rows it has not seen, and say how well an attacker can tell the two apart. With "
        "--synthetic, the same by distances to the nearest row of a synthetic table. Or, with "
        "--mechanism, attack onefold's own noise: release pairs of neighbouring datasets many times and "
        "bound epsilon from below.",
        epilog="The model file contains the rows it was fitted on, so whoever has the file needs no attack. "
        "The audit is about attackers who may only ask the model for answers.",
    )
    parser.add_argument("model", metavar="MODEL", nargs="?", help="file written by onefold fit")
    option(parser, "--synthetic TABLE", "synthetic table to attack instead of a model; needs --schema")
    shared.add_schema(parser, "by which --synthetic and its rows are read")
    option(parser, "--train A", "table the model was fitted on, or the synthetic table was made from")
    option(parser, "--test B", "table of rows the model, or whoever made the table, has not seen")
    option(parser, "--label COL", "column with the classes; adds an attack that knows the class of each row")
    option(parser, "--mechanism NAME", "what to attack instead of a model: a name such as Laplace, or all")
    option(parser, "--epsilon E", "with --mechanism, the claim to attack", shared.positive, 1.0)
    option(parser, "--unit UNIT", "with --mechanism, attack claims about this unit only: " + ", ".join(UNITS))
    option(
        parser, "--releases N", "with --mechanism, releases of each of the two datasets", shared.whole, 2000
    )
    reports.add_report(parser, card=False)
    shared.add_output_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Attack a model or a mechanism, and tell."""
    reports.check_report(args)
    if args.mechanism is not None:
        return _run_battery(args)
    if args.synthetic is not None or args.schema is not None:
        return _run_on_table(args)
    if None in (args.model, args.train, args.test):
        raise InvalidInputError("name a MODEL or --synthetic with --train and --test, or a --mechanism")
    return _run_on_model(args)


def _run_on_model(args: argparse.Namespace) -> int:
    """Load, read both tables, attack, tell."""
    model, names = load_classifier(args.model, args.quiet)
    tables = [_read(path, model, names, args.label, args.quiet) for path in (args.train, args.test)]
    if hasattr(model, "schema"):
        model.schema = None  # the rows are encoded
    # Imported late, here and below: a mistake in a table is told without waiting for scipy.
    from onefold.audit import audit_membership

    with busy("auditing", args.quiet):
        audit = audit_membership(model, *(rows for rows, _ in tables), *(labels for _, labels in tables))
    files = {"model": args.model, "train": args.train, "test": args.test}
    words = _in_words(audit)
    if args.report is not None:
        words += ["", _write(args.report, audit, files)]
    show({**files, **audit.to_dict()}, words, as_json=args.json, quiet=args.quiet)
    return 0


def _read(path: str, model: Any, names: list[str] | None, label: str | None, quiet: bool) -> tuple[Any, Any]:
    """Rows as numbers, and their classes if they are asked for."""
    found = read_rows(path, model, names, label=label, quiet=quiet)
    schema = getattr(model, "schema", None)
    rows = (found.rows if schema is None else schema.transform(found.rows))[found.with_label]
    if len(rows) < FEWEST_ROWS:
        raise InvalidInputError(f"{path}: an audit needs at least {FEWEST_ROWS} rows")
    known = {str(known) for known in model.classes_}
    if found.labels is not None and not {str(given) for given in found.labels} <= known:
        raise InvalidInputError(f"{path}: column {label!r} has classes the model was not fitted on")
    return rows, found.labels


def _write(path: str, audit: Any, files: dict[str, str]) -> str:
    from onefold.report.builders import of_membership

    facts = {
        "model": reports.file_name(files["model"]),
        "training rows": f"{audit.attack.n_members} from {reports.file_name(files['train'])}",
        "test rows": f"{audit.attack.n_nonmembers} from {reports.file_name(files['test'])}",
        "SHA-256 of the model": reports.digest(files["model"]),
    }
    return reports.written(path, of_membership(audit, "Membership audit", facts))


def _in_words(audit: Any) -> list[str]:
    from onefold.report import format_table

    attack = audit.attack
    headings = ["", "value", f"{100 * attack.confidence:g} % interval"]
    return [
        f"{attack.n_members} training rows against {attack.n_nonmembers} test rows\n",
        format_table(headings, audit.rows()) + "\n",
        *(fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in audit.notes()),
    ]


# --- synthetic tables ---------------------------------------------------------------------------------------


def _run_on_table(args: argparse.Namespace) -> int:
    """Compare how near members and others are to synthetic rows, and tell."""
    if args.model is not None or args.label is not None:
        raise InvalidInputError("--synthetic takes no MODEL and no --label: the schema says all")
    if None in (args.synthetic, args.schema, args.train, args.test):
        raise InvalidInputError("--synthetic TABLE goes with --schema, --train and --test")
    from onefold.tables import Schema, read_table

    schema = Schema.load(args.schema)
    with busy("reading", args.quiet):
        paths = (args.synthetic, args.train, args.test)
        tables = [read_table(path, schema=schema) for path in paths]
        made, *others = [_encoded(schema, table, most) for table, most in zip(tables, SAMPLE, strict=True)]
    from sklearn.neighbors import NearestNeighbors

    from onefold.audit import distance_attack
    from onefold.report import format_table

    with busy("attacking", args.quiet):
        nearest = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(made)
        train, test = (nearest.kneighbors(rows)[0][:, 0] for rows in others)
        attack = distance_attack(train, test)
    low, high = attack.auc_interval
    rows = [("AUC, distance to the nearest synthetic row", attack.auc, f"{low:.4f} to {high:.4f}")]
    rows += [
        (
            f"members found at {100 * point.fpr_limit:g} % false positives",
            point.tpr,
            "{:.4f} to {:.4f}".format(*point.tpr_interval),
        )
        for point in reversed(attack.points)
    ]
    words = [
        f"{attack.n_members} training rows against {attack.n_nonmembers} test rows\n",
        format_table(["", "value", f"{100 * attack.confidence:g} % interval"], rows) + "\n",
        *(fill(f"- {note}", WIDTH, subsequent_indent="  ") for note in TABLE_NOTES),
    ]
    files = {"synthetic": args.synthetic, "train": args.train, "test": args.test}
    result = {**files, "attack": attack.to_dict(), "notes": list(TABLE_NOTES)}
    if args.report is not None:
        from onefold.report.builders import of_distances

        facts: dict[str, Any] = {name: reports.file_name(path) for name, path in files.items()}
        facts["SHA-256 of the synthetic table"] = reports.digest(args.synthetic)
        page = of_distances(attack, (train, test), "Audit of a synthetic table", facts, rows, TABLE_NOTES)
        words += ["", reports.written(args.report, page)]
    show(result, words, as_json=args.json, quiet=args.quiet)
    return 0


def _encoded(schema: Any, table: Any, most: int) -> Any:
    """Rows as numbers, label included, at most so many of them."""
    label = schema.label
    encoded = schema.transform(table)
    if label is not None:
        own = schema.parse(table, strict=False, roles=("label",))[label.name]
        encoded = np.hstack([encoded, label.encode(own)])
    if len(encoded) < FEWEST_ROWS:
        raise InvalidInputError(f"{table.path}: an audit needs at least {FEWEST_ROWS} rows")
    rng = np.random.default_rng(0)
    return encoded[rng.permutation(len(encoded))[:most]]


# --- onefold's own releases --------------------------------------------------------------------------------

Makers = dict[str, Sequence[Callable[[], Any]]]


def _run_battery(args: argparse.Namespace) -> int:
    """Attack the named releases; the code is 1 if a claim did not stand."""
    if args.model is not None:
        raise InvalidInputError("--mechanism attacks onefold's own releases: it takes no MODEL")
    if args.unit not in (None, *UNITS):
        raise InvalidInputError(f"--unit must be one of {', '.join(UNITS)}")
    if args.releases < FEWEST_RELEASES:
        raise InvalidInputError(f"--releases must be at least {FEWEST_RELEASES}")
    from onefold.audit.battery import BLIND_SPOTS, attack

    makers = all_targets(args.epsilon)
    if args.mechanism not in ("all", *makers):
        raise InvalidInputError(f"--mechanism must be all or one of {', '.join(makers)}")
    names = list(makers) if args.mechanism == "all" else [args.mechanism]
    found: list[Any] = []
    with busy("attacking", args.quiet):
        for make in (make for name in names for make in makers[name]):
            target = make()
            if args.unit in (None, target.unit):
                found += attack(target, args.releases)
    if not found:
        raise InvalidInputError(f"{args.mechanism} claims nothing about the unit {args.unit}")
    failed = sum(not finding.passed for finding in found)
    words = [
        *map(str, found),
        "",
        f"{failed} of {len(found)} looks contradict a claim."
        if failed
        else f"None of {len(found)} looks contradicts a claim ({args.releases} releases of each dataset).",
        "What this cannot see:",
        *(fill(f"- {spot}", WIDTH, subsequent_indent="  ") for spot in BLIND_SPOTS),
    ]
    result = {
        "mechanism": args.mechanism,
        "releases": args.releases,
        "passed": not failed,
        "findings": [finding.to_dict() for finding in found],
        "cannot_see": list(BLIND_SPOTS),
    }
    if args.report is not None:
        from onefold.report.builders import of_battery

        words += ["", reports.written(args.report, of_battery(found, args.releases, BLIND_SPOTS))]
    show(result, words, as_json=args.json, quiet=args.quiet)
    return 1 if failed else 0


def all_targets(epsilon: float = 1.0) -> Makers:
    """Name everything that onefold releases with a claim; each target is made when it is asked for."""
    from onefold.audit.targets import privacy_targets

    return {
        **privacy_targets(epsilon),
        **_of_rows(epsilon),
        **_of_moments(epsilon),
        **_of_tables(epsilon),
        **_of_releases(epsilon),
    }


def _of_rows(epsilon: float) -> Makers:
    """Artefacts made of noisy rows."""
    from onefold.audit.row_targets import composed_target

    paths = {
        "Fabricator": ("OptimalNoise", _fabricated),
        "PrivateClassifier": ("Laplace", _classified),
        "PrivateSource": ("AnalyticGaussian", _source),
        "LocalModel": ("Laplace", _site),
    }
    made: dict[str, list[Callable[[], Any]]] = {
        name: [
            partial(composed_target, name, kind, unit, epsilon, path)
            for unit in ("entry", "record", "person")
        ]
        for name, (kind, path) in paths.items()
    }
    smoothed = partial(_site, fabricate=True)
    made["LocalModel"].append(
        partial(composed_target, "LocalModel, fabricated", "Laplace", "record", epsilon, smoothed)
    )
    return {**made}


def _fabricated(noise: Any, X: Any, y: Any, person: Any) -> dict[str, Any]:
    from onefold.fabrication import Fabricator

    maker = Fabricator(noise, 1, branch_size=2, n_jobs=1)  # small, so that classes are divided
    made = maker.fabricate(X, y, person=person)
    steps = tuple(maker.n_steps_)
    return {
        "content": (made.tobytes(), steps),
        "type": made.dtype,
        "shape": made.shape,
        "guarantee": str(maker.guarantee_),
    }


def _classified(noise: Any, X: Any, y: Any, person: Any) -> dict[str, Any]:
    from onefold import KAHM, AutoencoderClassifier
    from onefold.fabrication import PrivateClassifier

    model = PrivateClassifier(AutoencoderClassifier(KAHM(1)), noise, stopping=1, n_components=1)
    model.fit(X, y, person)
    answers = model.distances(np.array([[0.5, 0.0, 12.0], [0.1, 0.9, 13.0]]))
    return {
        "content": answers.tobytes(),
        "type": answers.dtype,
        "classes": model.classes_.tolist(),
        "guarantee": str(model.guarantee_),
    }


def _source(noise: Any, X: Any, y: Any, person: Any) -> dict[str, Any]:
    from onefold import KAHM
    from onefold.transfer import PrivateSource

    source = PrivateSource.fit(X, y, noise, estimator=KAHM(1), person=person)
    content = source.to_bytes()
    return {"content": content, "bytes": len(content), "guarantee": str(source.guarantee_)}


def _site(noise: Any, X: Any, y: Any, person: Any, fabricate: bool = False) -> dict[str, Any]:
    """What a site answers with, sends, and keeps in its file."""
    from onefold import KAHM, AutoencoderClassifier
    from onefold.federated import LocalModel

    model = LocalModel(AutoencoderClassifier(KAHM(1)), noise, fabricate=fabricate)
    model.fit(X, y, person=person)
    with TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        content = model.to_parcel("site").content, (Path(folder) / "model").read_bytes()
    return {
        "content": content,
        "bytes": [len(part) for part in content],
        "guarantee": str(model.guarantee_),
    }


def _of_moments(epsilon: float) -> Makers:
    """Artefacts made of private moments."""
    from onefold.audit.targets import moment_target

    return {
        name: [
            partial(moment_target, name, unit, "add-remove", epsilon, fit, replay=replay)
            for unit in ("record", "person")
        ]
        for name, fit, replay in (
            ("MomentClassifier", _fit_classifier, _replay_classifier),
            ("MomentFabricator", _fit_fabricator, _replay_fabricator),
            ("MomentFederation", _fit_site_moments, None),
        )
    }


def _fit_classifier(X: Any, y: Any, person: Any, **options: Any) -> Any:
    from onefold.fabrication import MomentClassifier

    # Two classes are one release here, so each needs its own second moment; pooled ones are attacked alone.
    model = MomentClassifier(centre=None, second_moments="class", **options)
    return model.fit(X, y, person).moments_


def _fit_fabricator(X: Any, y: Any, person: Any, **options: Any) -> Any:
    from onefold.fabrication import MomentFabricator

    return MomentFabricator(centre=None, **options).fit(X, y, person).moments_


def _fit_site_moments(X: Any, y: Any, person: Any, **options: Any) -> Any:
    from onefold.federated import release_moments
    from onefold.privacy import PrivateMoments

    moments = PrivateMoments(centre=None, **options)
    return PrivateMoments.from_bytes(release_moments(X, y, moments, person=person))


def _small_table() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.uniform(-0.5, 0.5, (40, 2)), np.arange(40) % 2


def _replay_classifier() -> tuple[Any, Any]:
    """The classifier of rows, and the one of its moments alone."""
    from onefold.fabrication import MomentClassifier

    X, y = _small_table()
    model = MomentClassifier(classes=[0, 1]).fit(X, y)
    again = MomentClassifier.from_moments(model.moments_)
    return model.decision_function(X).tobytes(), again.decision_function(X).tobytes()


def _replay_fabricator() -> tuple[Any, Any]:
    from onefold.fabrication import MomentFabricator

    model = MomentFabricator(classes=[0, 1]).fit(*_small_table())
    again = MomentFabricator.from_moments(model.moments_)
    return tuple(made.sample(20, random_state=0)[0].tobytes() for made in (model, again))  # type: ignore[return-value]


def _of_tables(epsilon: float) -> Makers:
    """Counts of tables, and synthetic tables made of them."""
    from onefold.audit.targets import count_target, fine_count_target

    name = "TableSynthesizer"
    return {
        name: [
            partial(count_target, name, "record", "add-remove", epsilon, _counted, replay=_replay_table),
            partial(count_target, name, "person", "add-remove", epsilon, _counted),
            partial(count_target, f"{name}, replace", "record", "replace", epsilon, _counted),
            partial(fine_count_target, f"{name}, bins", epsilon, _fine_counts),
            partial(_length_target, epsilon),
        ]
    }


def _counted(rows: Any, person: Any, **options: Any) -> Any:
    from onefold.audit.targets import CLASS_PAIRS
    from onefold.fabrication import TableSynthesizer
    from onefold.tables import Field, Schema

    schema = Schema(
        [
            Field("age", low=0, high=100, bins=(50,)),
            Field("ward", "string", levels=("a", "b")),
            Field("outcome", "integer", role="label", levels=tuple(range(2 * CLASS_PAIRS))),
        ]
    )
    columns = {
        field.name: list(cells) for field, cells in zip(schema.fields, zip(*rows, strict=True), strict=True)
    }
    made = TableSynthesizer(schema, **options).count_tables(columns, person=person)
    tables = [*made.layout.singles(made.vector), *made.layout.doubles(made.vector)]
    return made.guarantee, np.hstack([table.reshape(2 * CLASS_PAIRS, -1) for table in tables])


def _fine_counts(values: Any, epsilon: float, delta: float) -> Any:
    from onefold.fabrication import TableSynthesizer
    from onefold.tables import Field, Schema

    schema = Schema([Field("grade", "integer", low=0, high=4), Field("paid", "boolean")])
    table = {"grade": values, "paid": [True] * len(values)}
    return TableSynthesizer(schema, epsilon, delta).count_bins(table).vector


def _synthesized(side: int, epsilon: float) -> Any:
    """A synthesizer of few rows, of which one is odd and in one of the neighbours only."""
    from onefold.fabrication import TableSynthesizer
    from onefold.tables import Field, Schema

    schema = Schema(
        [Field("grade", "integer", low=0, high=4, bins=(2,)), Field("ward", "string", levels=("a", "b"))]
    )
    table = {"grade": [1, 2, *[1e9] * side], "ward": ["a", "b", *["a very rare ward"] * side]}
    return TableSynthesizer(schema, epsilon).fit(table)


def _length_target(epsilon: float) -> Any:
    """The number of synthetic rows, and everything about them but their cells."""
    from onefold.audit.battery import AttackTarget

    def draw(side: int, n: int) -> Any:
        made = (_synthesized(side, epsilon).sample() for _ in range(n))
        return np.array([[len(table["grade"])] for table in made], dtype=np.float64)

    def schema(side: int) -> dict[str, Any]:
        made = _synthesized(side, epsilon)
        table = made.sample(10)
        return {
            "types": {name: column.dtype for name, column in table.items()},
            "bytes": len(made.counts_.to_bytes()),
            "guarantee": str(made.guarantee_),
        }

    epsilon, delta = _synthesized(0, epsilon).guarantee_.record
    return AttackTarget("TableSynthesizer, rows", "record", epsilon, delta, draw, schema=schema)


def _replay_table() -> tuple[Any, Any]:
    """The table of a synthesizer, and the one of its counts alone."""
    from onefold.fabrication import TableSynthesizer

    made = _synthesized(1, 1.0)
    again = TableSynthesizer.from_counts(made.schema, made.counts_)
    tables = (one.sample(50, random_state=0) for one in (made, again))
    return tuple(tuple(column.tobytes() for column in table.values()) for table in tables)  # type: ignore[return-value]


def _of_releases(epsilon: float) -> Makers:
    """Rows that are published with the documents' optimal noise."""
    kinds = {"release_iid": "FisherGaussian", "release_bounded": "BoundedFisherNoise"}
    return {
        **{
            name: [partial(_released, kind, unit, epsilon) for unit in ("entry", "record", "person")]
            for name, kind in kinds.items()
        },
        "release_table": [partial(_table_target, unit, epsilon) for unit in ("record", "person")],
    }


def _persons(unit: str, n_rows: int) -> dict[str, Any]:
    """Say that each person has as many rows, one after the other, as may count."""
    from onefold.audit.row_targets import ROWS_PER_PERSON

    if unit != "person":
        return {}
    return {"person": np.arange(n_rows) // ROWS_PER_PERSON, "rows_per_person": ROWS_PER_PERSON}


def _released(kind: str, unit: str, epsilon: float) -> Any:
    from onefold.audit.row_targets import (
        CLOSE,
        ROWS_PER_PERSON,
        bounded_target,
        fisher_factors,
        mechanism_for,
        needed_levels,
        reachable,
        row_target,
    )
    from onefold.release import release_bounded, release_iid

    noise = mechanism_for(kind, unit, epsilon)
    claim = getattr(noise.guarantee(3, rows_per_person=ROWS_PER_PERSON), unit)
    given = {"delta": noise.delta, "sensitivity": noise.domain}

    def bounded(rows: Any) -> Any:
        persons = _persons(unit, len(rows))
        return release_bounded(rows, noise.lam, noise.bounds, Pi=noise.Pi, **given, **persons).X

    def free(rows: Any) -> Any:
        return release_iid(rows, noise.lam, noise.Pi, **given, **_persons(unit, len(rows))).X

    if kind == "BoundedFisherNoise":
        return bounded_target("release_bounded", unit, noise, claim, bounded)
    return row_target(
        "release_iid",
        unit,
        claim,
        free,
        needed_levels(kind, unit, claim[0], noise.delta),
        "gaussian",
        reachable=lambda numbers, side: reachable(numbers, CLOSE[side], fisher_factors(noise), "gaussian"),
    )


def _table_target(unit: str, epsilon: float) -> Any:
    """A table of a whole number, a number with a fraction and a word, all of them declared."""
    from onefold.audit.battery import AttackTarget
    from onefold.audit.row_targets import ROWS_PER_PERSON
    from onefold.privacy import FisherGaussian
    from onefold.release import TableCodec, release_table

    towns = ("a", "ab", "a long word")
    records = ((18, -5, "a"), (500, 5.5, "a long word"))  # one of them outside the declared ranges
    n_rows = ROWS_PER_PERSON if unit == "person" else 1

    def columns(side: int, n: int) -> dict[str, Any]:
        values = [*[(30, 0, "ab")] * n_rows, *[records[side]] * n_rows * n]
        age, size, town = zip(*values, strict=True)
        return {"age": np.array(age), "size": np.array(size), "town": np.array(town)}

    def codec(table: dict[str, Any]) -> Any:
        ranges = {"age": (18.0, 98.0), "size": (-1.0, 1.0)}
        return TableCodec(table, ranges, {"town": towns}, {"age": (-1e6, 1e6), "size": (-1e6, 1e6)})

    def released(side: int, n: int) -> Any:
        table = columns(side, n)
        known = codec(table)
        noise = FisherGaussian.from_epsilon(epsilon, known.n_encoded, sensitivity=known.domain)
        return release_table(table, known, noise.lam, **_persons(unit, len(table["age"])))

    def draw(side: int, n: int) -> Any:
        made = released(side, n).columns
        codes = np.searchsorted(np.sort(towns), made["town"])
        numbers = np.column_stack([made["age"], made["size"], codes]).astype(np.float64)
        return numbers[n_rows:].reshape(n, -1)

    def schema(side: int) -> dict[str, Any]:
        made = released(side, 1)
        types = {name: column.dtype for name, column in made.columns.items()}
        return {"types": types, "guarantee": str(made.guarantee), "words": made.in_words()}

    claim = getattr(released(0, 1).guarantee, unit)
    return AttackTarget("release_table", unit, claim[0], claim[1], draw, schema=schema)
