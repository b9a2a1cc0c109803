"""Numbers to predict at several sites: what ``federate site`` and ``query`` do with them.

Sites send moments once, with noise or with consent without, and whoever has the server's folder predicts from
the sum. No site is asked, so there is nothing to encrypt, to approve or to combine by a rule.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as shared
from onefold.cli import reports
from onefold.cli.console import busy, count_of, print_json, say
from onefold.cli.federate import common, sources
from onefold.cli.outputs import STANDARD_OUTPUT, write_columns
from onefold.cli.predict import LEVEL, measured_numbers
from onefold.exceptions import InvalidInputError
from onefold.report.evaluation import numbers_of
from onefold.tables import Schema
from onefold.tables.rows import rows
from onefold.tables.tasks import identifiers_of

if TYPE_CHECKING:
    from onefold.federated.flower import Federation, Site

# Options that are about classes, answers or models.
NOT_AT_A_SITE = (
    *("model", "measure", "scale", "label_epsilon", "sensitivity", "radius", "range", "classes"),
    *("rows_about", "sites", "accuracy_without_noise", "no_smoothing", "send_raw_model", "send_model"),
    *("anyway", "send_answers_only", "send_encrypted_only"),
)
NOT_IN_A_QUERY = (
    *("encrypted", "measures", "probabilities", "sets", "mix", "query_key", "fit_on", "bits", "bound"),
    *("floor", "power", "looks", "keys", "calibrate", "calibrate_label", "rule", "liars", "held_out"),
    "held_out_label",
)
NO_QUERIES = (
    "numbers are predicted from sums over all sites, and no site answers queries about them: give --epsilon "
    "E for private moments, or --send-plain-sums for sums without noise, which are not private"
)
PLAIN_NUMBERS = """\
PLAIN SUMS LEAVE THIS SITE, NOT PRIVATE: a server that takes this site gets the number of its rows, their sums
and one matrix of products of the rows and the numbers to predict, without noise, and keeps them until it
removes the site. Sums of few rows show the rows. Neither a minimum number of rows nor encryption is a
guarantee, only noise is. The server predicts from the sum of all sites: this site is not asked, sees no
query, and keeps no model."""


# --- site -------------------------------------------------------------------------------------------------


def is_wanted(args: argparse.Namespace) -> bool:
    """Whether the label that the schema declares is a number."""
    if args.schema is None:
        return False
    known = args.schema if isinstance(args.schema, Schema) else Schema.load(args.schema)
    return bool(known.predicts_number)


def check_site(args: argparse.Namespace) -> None:
    """Refuse options that make no sense for numbers to predict."""
    why = "is for classes: a site for numbers to predict sends sums only"
    common.refuse(args, NOT_AT_A_SITE, why)
    common.refuse(args, ("noise",), why, "optimal")
    common.refuse(args, ("sampler",), why, "hardened")
    if args.method == "rows":
        raise InvalidInputError("numbers are predicted from sums: leave out --method rows")
    if args.epsilon is None:
        if not args.send_plain_sums:
            raise InvalidInputError(NO_QUERIES)
        if args.ledger is not None:
            raise InvalidInputError("--ledger needs --epsilon: without it no noise is added")
        return
    if args.send_plain_sums:
        raise InvalidInputError(
            "--send-plain-sums does not go with --epsilon: the sums carry no noise, so nothing that noise "
            "promises would hold"
        )
    if args.unit == "entry":
        raise InvalidInputError("moments protect whole records: give --unit record or --unit person")
    if not args.delta > 0:
        raise InvalidInputError("moments need --delta above 0")


def fit(site: Site, args: argparse.Namespace) -> None:
    """Make the moments of the site's table, and keep them in its folder to be sent."""
    from onefold.federated.number_sums import NumberRelease

    schema = common.schema_of(args, "range", "classes", "person", "rows_per_person")
    by_person = args.unit == "person" and args.epsilon is not None
    if by_person and (schema.person is None or schema.rows_per_person is None):
        raise InvalidInputError("--unit person needs a schema with a person column and rowsPerPerson")
    agreed = NumberRelease(schema, args.epsilon, args.delta)
    table = sources.tables_of(args, schema, shared.NoiseOptions.of(args))
    site.fit_numbers(
        table.X,
        agreed,
        person=None if by_person else False,
        send_plain_sums=bool(args.send_plain_sums),
        ledger=args.ledger,
        **sources.again(site, args, schema),
    )


# --- query ------------------------------------------------------------------------------------------------


def run_query(args: argparse.Namespace, federation: Federation, out: str | None) -> int:
    """Read, predict from the sum of the sites, write, tell."""
    common.refuse(
        args,
        NOT_IN_A_QUERY,
        "has to be left out: the sites of this federation predict numbers, from a sum at the server; no "
        "answer of a site can be encrypted, combined or taken apart",
    )
    schema = common.schema_of(args)
    if schema.plain:
        raise InvalidInputError("the sites have a schema: give it with the query (--schema FILE)")
    keep = [] if args.id is None else [args.id]
    table = rows(args.data, schema, mode="lenient", keep=keep)
    level = LEVEL if args.level is None else args.level
    with busy(f"predicting {len(table)} rows", args.quiet):
        result = federation.predict_numbers(table.X, schema=schema, level=level)
    columns: dict[str, Any] = {name: identifiers_of(values) for name, values in table.kept.items()}
    columns |= {"prediction": result.predictions, "low": result.low, "high": result.high}
    if out is not None:
        write_columns(out, columns)
    found = None
    if table.y is not None and len(table.y):
        alone = schema.person is None
        found = measured_numbers(columns, table.y, table.known, level=level, bounded=alone)
    told: dict[str, Any] = {"rows": result.n_rows, "answered": list(result.sites), "level": level}
    told |= {"kept_out": dict(result.kept_out), "guarantee": result.guarantee.to_dict()}
    told |= {"numbers": result.predictions.tolist()} if out is None else {"predictions": out}
    told |= {} if found is None else {"measures": numbers_of(found)}
    raw = {} if found is None else reports.not_covered(result.guarantee)
    told |= raw
    if args.json:
        print_json(told)
    else:
        where = f", written to {out}" if out not in (None, STANDARD_OUTPUT) else ""
        sites = count_of(len(result.sites), "site")
        say(f"{result.n_rows} rows by the sum of {sites}{where}", args.quiet)
        if found is not None:
            for line in [*found.words(f"{found.rows} rows"), *raw.values()]:
                say(line, args.quiet)
    for site, reason in result.kept_out.items():
        say(f"{site} is kept out, and its sums do not count: {reason}", args.quiet)
    return 0
