"""The tables that a site is fitted to, and the options of a fit, kept for the next one."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onefold.cli.arguments import NoiseOptions
from onefold.cli.federate import common
from onefold.exceptions import InvalidInputError
from onefold.tables import Schema
from onefold.tables.formats import is_address
from onefold.tables.rows import Mode, Rows, joined

if TYPE_CHECKING:
    from onefold.federated.flower import Site

FORMAT = 1
# Options that say what a fit makes of the rows; DATA and --schema are kept apart.
OPTIONS = (
    *("label", "ignore", "epsilon", "delta", "unit", "noise", "range", "sensitivity", "sampler"),
    *("label_epsilon", "classes", "person", "rows_per_person", "no_smoothing", "method", "radius"),
    *("rows_about", "sites", "accuracy_without_noise", "anyway", "model", "measure", "scale"),
    *("n_components", "seed", "send_plain_sums", "ledger"),
)
NO_RECIPE = (
    "this site was fitted from Python, which kept no note of how: fit it once more "
    "with onefold federate site DATA and the options of its fit"
)


def again(site: Site, args: argparse.Namespace, schema: Schema) -> dict[str, Any]:
    """What a fit is given besides the rows: how it can be done again, and what asks before it is done."""
    options = {name: getattr(args, name) for name in OPTIONS}
    ledger = None if args.ledger is None else Path(args.ledger).resolve()
    # The folder's own is found wherever the folder is moved to.
    own = ledger is None or ledger == site.folder.ledger.resolve()
    options["ledger"] = None if own else str(ledger)
    tables = [args.data, *args.more]
    # The address of a database may hold what nobody should find in a file.
    kept = None if any(map(is_address, tables)) else [str(Path(each).resolve()) for each in tables]
    recipe = {"format": FORMAT, "tables": kept, "options": options}
    recipe["schema"] = None if schema.plain else schema.to_dict()
    recipe["encoders"] = _encoder_files(schema)
    return {"recipe": recipe, "confirm": args.confirm}


def _encoder_files(schema: Schema) -> dict[str, list[str | None]]:
    """Where the encoders of columns are, which a schema does not keep: by column, model and tokenizer."""
    files = {known.name: known.encoder.files for known in schema.features if known.encoder is not None}
    return {
        name: [None if place is None else str(place.resolve()) for place in (found.model, found.tokenizer)]
        for name, found in files.items()
        if found is not None
    }


def _with_encoders(schema: Schema, kept: dict[str, list[str]], given: Collection[str]) -> Schema:
    """The schema with the encoders of the last fit, but for columns whose encoder is given anew."""
    declared = {known.name: known.encoder for known in schema.features}
    found: dict[str, Any] = {}
    for name, places in kept.items():
        encoder = declared.get(name)
        if encoder is None or name in given:
            continue
        try:
            found[name] = encoder.located(*places)
        except (InvalidInputError, OSError) as error:
            raise InvalidInputError(
                f"column {name!r}: the encoder of the last fit cannot be used ({error}); say where it is "
                f"with --encoder {name}=PATH"
            ) from None
    return schema.with_encoders(found)


def like_before(
    site: Site,
    data: str | None = None,
    *,
    instead: bool = False,
    encoders: Sequence[tuple[str, str]] = (),
    name_it: str = "with --data and --replace",
    reads: bool = True,
) -> argparse.Namespace:
    """The options of the site's last fit, for its tables and ``data``, or for ``data`` instead of them.

    ``encoders`` are files of encoders that are elsewhere now, ``name_it`` how a whole table is named; without
    ``reads`` only the options are wanted, and no table need be there.
    """
    recipe = site.recipe
    if recipe.get("format") != FORMAT or set(recipe.get("options", ())) != set(OPTIONS):
        raise InvalidInputError(NO_RECIPE)
    tables = [] if instead else recipe["tables"]
    if not reads:
        tables = [""]
    if tables is None:
        raise InvalidInputError(
            "the last fit read a table of a database, whose address is not kept: name the whole table as it "
            f"is now, {name_it}"
        )
    if data is not None and not is_address(data) and str(Path(data).resolve()) in tables:
        raise InvalidInputError(
            f"{data}: this table belongs to the last fit already, and its rows would count twice; without "
            "--data it is read again as it is now"
        )
    tables = [*tables, *([] if data is None else [data])]
    for each in tables:
        if reads and not is_address(each) and not Path(each).exists():
            raise InvalidInputError(
                f"{each}: this table of the last fit is not there any more; put it back, or name the whole "
                f"table as it is now {name_it}"
            )
    schema = None if recipe["schema"] is None else Schema.from_dict(recipe["schema"])
    if schema and reads:
        schema = _with_encoders(schema, recipe.get("encoders", {}), [name for name, _ in encoders])
    again = argparse.Namespace(**recipe["options"], data=tables[0], more=tables[1:], schema=schema)
    again.encoders = list(encoders)
    return again


def tables_of(args: argparse.Namespace, schema: Schema, noise: NoiseOptions) -> Rows:
    """All tables of a fit as one: by their contract, or rows of numbers with their labels."""
    mode: Mode = "lenient" if schema.plain else "private"
    found = [
        noise.rows_of(path, schema, args.label, args.ignore, quiet=args.json, mode=mode)
        for path in (args.data, *args.more)
    ]
    columns = [(each.n_features, each.names, [*each.X] if not schema.plain else []) for each in found]
    for other, own in zip(found[1:], columns[1:], strict=True):
        if own != columns[0]:
            raise InvalidInputError(
                f"{other.path}: the tables of a site must have the same columns in the same order"
            )
    return joined(found)


# --- numbers to predict -------------------------------------------------------------------------------------
# Sites send moments once, with noise or with consent without, and whoever has the server's folder predicts
# from the sum. No site is asked, so there is nothing to encrypt, to approve or to combine by a rule.


# Options that are about classes, answers or models.
NOT_AT_A_SITE = (
    *("model", "measure", "scale", "label_epsilon", "sensitivity", "radius", "range", "classes"),
    *("rows_about", "sites", "accuracy_without_noise", "no_smoothing", "send_raw_model", "send_model"),
    *("anyway", "send_answers_only", "send_encrypted_only"),
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
HAVE_NO_NOISE = (
    "does not go with --epsilon: the sums carry no noise, so nothing that noise promises would hold"
)


def predicts_numbers(args: argparse.Namespace) -> bool:
    """Whether the label that the schema declares is a number."""
    if args.schema is None:
        return False
    known = args.schema if isinstance(args.schema, Schema) else Schema.load(args.schema)
    return bool(known.predicts_number)


def check_numbers(args: argparse.Namespace) -> None:
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
    common.refuse(args, ("send_plain_sums",), HAVE_NO_NOISE)
    if args.unit == "entry":
        raise InvalidInputError("moments protect whole records: give --unit record or --unit person")
    if not args.delta > 0:
        raise InvalidInputError("moments need --delta above 0")


def fit_numbers(site: Site, args: argparse.Namespace) -> None:
    """Make the moments of the site's table, and keep them in its folder to be sent."""
    from onefold.federated.number_sums import NumberRelease

    schema = common.schema_of(args, "range", "classes", "person", "rows_per_person")
    by_person = args.unit == "person" and args.epsilon is not None
    check_persons(by_person, schema)
    agreed = NumberRelease(schema, args.epsilon, args.delta)
    table = tables_of(args, schema, NoiseOptions.of(args))
    site.fit_numbers(
        table.X,
        agreed,
        person=None if by_person else False,
        send_plain_sums=bool(args.send_plain_sums),
        ledger=args.ledger,
        **again(site, args, schema),
    )


def check_persons(by_person: bool, schema: Schema) -> None:
    """Refuse a promise to persons without a schema that says who they are."""
    if by_person and (schema.person is None or schema.rows_per_person is None):
        raise InvalidInputError("--unit person needs a schema with a person column and rowsPerPerson")
