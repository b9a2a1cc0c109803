"""``onefold federate site``: fit a model at home, say what it promises and answer queries."""

from __future__ import annotations

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import flag, option, repeated
from onefold.cli.console import count_of, say, show, without_bars
from onefold.cli.federate import common, sources
from onefold.exceptions import InvalidInputError
from onefold.tables.formats import check_header
from onefold.tables.rows import Rows

if TYPE_CHECKING:
    from onefold.federated.flower import Site

RAW = """\
NOT PRIVATE: no noise was added. Every answer is a function of this site's raw rows, and whoever asks enough
learns something about them. The limits below bound how much is asked, not what is learned. For a promise give
--epsilon, and --schema, --range or --sensitivity."""

PLAIN_SUMS = """\
PLAIN SUMS LEAVE THIS SITE, NOT PRIVATE: a server that takes this site gets counts, class sums and one matrix
of products of its rows, without noise, and keeps them until it removes the site. A class with one row sends
that row. Columns of zeros and ones send counts of pairs. Neither a minimum number of rows nor encryption is a
guarantee, only noise is. Scores computed from the sums of all sites go to every site with every query."""

MOMENTS_LEAVE = """\
Private moments of the rows leave this site once, with the guarantee above; of the rows nothing else does. The
server adds up those of the sites that take part and answers queries by itself: this site is not asked, sees
no query, and keeps no model."""

METHOD = "moments: noisy sums leave once; rows: noise on every row (default: rows for --unit entry only)"
ONLY_ROWS = (
    *("model", "measure", "scale", "label_epsilon", "no_smoothing", "sensitivity"),
    *("send_raw_model", "send_answers_only", "send_encrypted_only", "send_plain_sums"),
)
WITH_NOISE = ("range", "sensitivity", "person", "label_epsilon", "no_smoothing", "ledger")
FOR_MOMENTS = ("radius", "sites", "rows_about", "accuracy_without_noise", "anyway")

SENDS = {
    "send_model": "private-model",
    "send_raw_model": "raw-model",
    "send_answers_only": "answers",
    "send_encrypted_only": "sealed-answers",
}

WHOM = {"approve": "purposes", "approve_queriers": "queriers", "answer_anyone": "anyone"}
WHOM_IN_WORDS = {
    "anyone": "It answers whoever the server lets ask, signed or not",
    "queriers": "It answers queriers that you have approved",
    "purposes": "It answers what you have approved of each querier and purpose",
}

GOOD = 0.8  # of what telling the classes apart gains: a forecast worth the trouble


# --- site -------------------------------------------------------------------------------------------------


def add_site(parts: Any) -> None:
    """Declare the command."""
    parser = parts.add_parser(
        "site",
        help="run a site of a federation",
        description="Fit a model to a table and answer queries with one number per row and class, until "
        "interrupted. Before any answer, the guarantee for the rows is printed. Without DATA, the site "
        "answers with the model fitted last.",
        epilog="Every fit with noise spends its epsilon again: fit once. ledger.db in the folder counts "
        "what was spent; a second fit with noise needs --ledger. When rows change or a person is to be "
        "erased: onefold federate site update, site forget and site status.",
    )
    parser.add_argument("table", nargs="?", metavar="DATA", help=f"table to fit: {shared.TABLES}")
    common.add_site_folder(parser)
    option(parser, "--data FILE", "the same as DATA")
    option(parser, "--label COL", "column of the table that holds the classes; numbers need --schema")
    shared.add_ignore(parser, "column of the table to leave out")
    common.add_schema(parser)
    flag(parser, "--fit-only", "fit the model, print its guarantee and exit without connecting")
    option(parser, "--seconds S", "stop after this many seconds (default: never)", shared.positive)
    option(parser, "--give-up S", "seconds after which a refused site gives up", shared.positive, 300.0)
    flag(parser, "--json", "print the profile and the guarantee as JSON")
    privacy = parser.add_argument_group("privacy")
    shared.add_noise_options(privacy, required=False)
    shared.add_person_options(privacy)
    option(privacy, "--ledger FILE", "ledger in which a fit with noise is entered, besides the folder's own")
    flag(privacy, "--no-smoothing", "fit the model to the noisy rows without smoothing them")
    option(privacy, "--method", METHOD, choices=("moments", "rows"))
    _add_moment_options(parser.add_argument_group("private moments, the same at all sites", FORECAST))
    _add_model_options(parser.add_argument_group("model, the same at all sites"))
    _add_limits(parser.add_argument_group("what may leave this site (kept for the next start)"))
    _add_sum_options(parser.add_argument_group("encrypted sums (kept for the next start)"))
    parser.set_defaults(run=run_site, more=[], confirm=None)


def _add_model_options(group: Any) -> None:
    shared.add_model_options(group, "wide, with --schema folding")
    scale = "factor applied to the data, with every measure but euclidean (default: by --schema, or auto)"
    option(group, "--scale F", scale, shared.positive)
    option(group, "--seed N", "seed of the clusters, never of the noise", shared.seed, 0)


FORECAST = (
    "Before anything is drawn or served, the site prints a forecast from declared numbers alone, and refuses "
    "noise that would leave less than a quarter of the gain over guessing."
)


def _add_moment_options(group: Any) -> None:
    length = "length of a row, instead of --range; longer rows are shortened"
    option(group, "--radius R", length, shared.positive)
    option(group, "--rows-about N", "public number of rows, about (default: rowsAbout)", shared.whole)
    option(group, "--sites N", "number of sites to forecast for (default: 1)", shared.whole)
    declared = "accuracy without noise, known from elsewhere, to forecast an accuracy"
    option(group, "--accuracy-without-noise A", declared, shared.fraction)
    flag(group, "--anyway", "release moments even if the noise swamps the data")


def _add_limits(group: Any) -> None:
    option(group, "--per-minute N", "most rows answered per minute (10000 until changed)", shared.whole)
    option(group, "--total N", "most rows ever answered (1000000 until changed)", shared.whole)
    option(group, "--querier-total N", "most rows ever answered to one querier (also 1000000)", shared.whole)
    flag(group, "--send-plain-sums", "let sums of the RAW ROWS leave without noise, as all sites do or none")
    sends = group.add_mutually_exclusive_group()
    flag(sends, "--send-model", "let answers leave, and a model whose guarantee holds")
    flag(sends, "--send-raw-model", "let answers leave, and the model even if it holds RAW ROWS")
    flag(sends, "--send-answers-only", "let answers leave but no model and no sums (until changed)")
    flag(sends, "--send-encrypted-only", "let only encrypted answers leave")
    whom = group.add_mutually_exclusive_group()
    flag(whom, "--approve", "answer what you have approved of each querier and purpose, and nothing else")
    flag(whom, "--approve-queriers", "answer queriers that you have approved (new folders do so)")
    flag(whom, "--answer-anyone", "answer whoever the server lets ask, signed or not")
    option(group, "--declare-rows N", "number of rows to tell the server's operator", shared.whole)
    flag(group, "--tell-epsilon", "tell the server's operator what the site's ledger has spent")
    repeated(group, "--trust-key ID", "id of a query key to trust, and no others from then on", shared.key_id)


def _add_sum_options(group: Any) -> None:
    option(group, "--sum-table FILE", "table whose rows this site adds to sums that you have approved")
    option(group, "--sum-key FILE", "key of this site for sums, of onefold federate keys new")
    encoder = "encoder of a column of --sum-table: an ONNX file, or the folder of a sentence encoder"
    repeated(group, "--sum-encoder COL=PATH", encoder, shared.named_path, dest="sum_encoders")


def run_site(args: argparse.Namespace) -> int:
    """Fit if there is data, say what is promised, then serve."""
    from onefold.federated.flower.setup import expiry_warnings

    site = common.site_of(args)
    _check_data(args)
    if sources.predicts_numbers(args):
        sources.check_numbers(args)
    else:
        _check_method(args)
        _check_plain_sums(site, args)
    only = args.send_answers_only or args.send_encrypted_only
    site.configure(
        per_minute=args.per_minute,
        total=args.total,
        querier_total=args.querier_total,
        sends=next((kind for option, kind in SENDS.items() if getattr(args, option)), None),
        trust_keys=args.trust_key,
        withdraw_plain_sums=only and not args.send_plain_sums,
        declared_rows=args.declare_rows,
        tells_epsilon=args.tell_epsilon or None,
        approval=next((mode for option, mode in WHOM.items() if getattr(args, option)), None),
        sum_table=args.sum_table,
        sum_key=args.sum_key,
        sum_encoders=dict(args.sum_encoders or ()),
    )
    forecast = {} if args.data is None else fit(site, args)
    if site.only_sums:
        _tell_sums(site, args.json)
    else:
        _tell(site, args.json, forecast)
    for line in expiry_warnings(site.folder):
        say(f"WARNING: {line}", quiet=False)
    if args.fit_only:
        return 0
    remark = partial(say, quiet=False) if args.json else partial(print, flush=True)
    with common.until_stopped() as keep_going:
        site.serve(args.seconds, say=remark, give_up=args.give_up, keep_going=keep_going)
    return 0


def fit(site: Site, args: argparse.Namespace) -> dict[str, Any]:
    """Fit the site's model, or release its moments; what was forecast, for JSON."""
    with without_bars(args.json):
        if sources.predicts_numbers(args):
            sources.fit_numbers(site, args)
            return {}
        if args.method == "moments":
            return _release(site, args)
        _fit(site, args)
        return {}


def _check_data(args: argparse.Namespace) -> None:
    """Refuse a table without what says which column holds the classes, and the other way round."""
    args.data = common.table_of(args)
    if args.data is None and (args.label is not None or args.schema is not None):
        raise InvalidInputError(
            f"--{'label' if args.schema is None else 'schema'} goes with DATA: name the table to fit"
        )
    if args.data is not None and args.schema is None and args.label is None:
        raise InvalidInputError("DATA needs --label COL, or --schema FILE that names the column")


def _check_method(args: argparse.Namespace) -> None:
    """Decide what is made of the rows, and refuse options of another method."""
    if args.method is None:
        of_records = args.epsilon is not None and args.unit != "entry"
        args.method = "moments" if of_records and args.data is not None else "rows"
    elif args.data is None or args.epsilon is None:
        raise InvalidInputError("--method goes with DATA and --epsilon: it says what is made with noise")
    if args.method == "rows":
        common.refuse(
            args, FOR_MOMENTS, "is for --method moments, with --epsilon and --unit record or person"
        )
        return
    common.refuse(args, ONLY_ROWS, "is for --method rows: private moments leave once, and cover labels too")
    if args.unit == "entry":
        raise InvalidInputError("--method moments protects whole records: give --unit record or person")
    if args.noise != "optimal":
        raise InvalidInputError("--noise is for --method rows: private moments have Gaussian noise")
    if not args.delta > 0:
        raise InvalidInputError("--method moments needs --delta above 0")
    if args.schema is None:
        _check_numbers(args)


def _check_numbers(args: argparse.Namespace) -> None:
    """Refuse moments of plain numbers without what all sites must agree on."""
    shared.check_range(args.range)
    if args.classes is None:
        raise InvalidInputError(
            "--method moments needs --classes C ... or --schema FILE: all sites declare the same classes"
        )
    if (args.range is None) == (args.radius is None):
        raise InvalidInputError(
            f"--unit {args.unit} needs --range LOW HIGH, --radius R or --schema FILE, one of them: the size "
            "of a row depends on it"
        )
    shared.check_label_options(None, args.classes)
    shared.check_person_options(args.person, args.rows_per_person)
    if (args.unit == "person") != (args.person is not None):
        raise InvalidInputError("--unit person and --person COL with --rows-per-person K go together")


def _check_plain_sums(site: Site, args: argparse.Namespace) -> None:
    """Refuse sums without noise where they cannot be made, or would undo a promise."""
    if not args.send_plain_sums:
        return
    if args.epsilon is not None:
        common.refuse(args, ("send_plain_sums",), sources.HAVE_NO_NOISE)
    if args.data is None and not site.sends_plain_sums:
        raise InvalidInputError(
            "the model of this site was fitted without --send-plain-sums: fit it again, with DATA and "
            "--schema FILE"
        )
    if args.data is not None and args.schema is None:
        raise InvalidInputError(
            "--send-plain-sums needs --schema FILE: classes, units and the length of a row must be declared"
        )
    if args.measure not in (None, "euclidean"):
        raise InvalidInputError("--send-plain-sums needs --measure euclidean, which it takes by default")


def _fit(site: Site, args: argparse.Namespace) -> None:
    """Fit the site's model to its table; from a contract follow domain, classes and persons."""
    from onefold.federated.contract import class_list, schema_scale
    from onefold.privacy import RandomisedLabels

    schema = common.schema_of(args, "range", "sensitivity", "classes", "person", "rows_per_person")
    noise = shared.NoiseOptions.of(args).by_schema(schema)
    noise.check()
    if noise.epsilon is None:
        common.refuse(args, WITH_NOISE, "needs --epsilon: without it no noise is added")
    scale, measure, usual, labels = args.scale, args.measure, "wide", noise.label_mechanism(schema)
    if not schema.plain:
        scale, usual = schema_scale(schema) if scale is None else scale, "folding"
        measure = "euclidean" if args.send_plain_sums else measure
        if noise.label_epsilon is not None:
            labels = RandomisedLabels(noise.label_epsilon, class_list(schema))
    estimator = _estimator(args.model or usual, measure, scale, args.n_components, args.seed)
    table = sources.tables_of(args, schema, noise)
    mechanism = None if noise.epsilon is None else noise.mechanism(table.schema.width)
    site.fit(
        table.X,
        table.y,
        estimator,
        mechanism,
        schema=schema,
        columns=_columns(args, table),
        label_mechanism=labels,
        person=noise.persons(table),
        fabricate=not args.no_smoothing,
        send_plain_sums=args.send_plain_sums,
        ledger=args.ledger,
        **sources.again(site, args, schema),
    )


def _columns(args: argparse.Namespace, table: Rows) -> Any:
    """Names of plain columns, of which a sum goes to the server; None where there are none."""
    if not table.schema.plain or not table.names:
        return None
    check_header(args.data, table.names)
    return table.names


def _release(site: Site, args: argparse.Namespace) -> dict[str, Any]:
    """Release private moments of the table, once the forecast allows it; the forecast, for JSON."""
    from onefold.federated.declared import declared_moments

    schema = common.schema_of(args, "range", "radius", "classes", "person", "rows_per_person")
    by_person, most = args.unit == "person", args.rows_per_person
    if not schema.plain:
        sources.check_persons(by_person, schema)
        agreed = declared_moments(args.epsilon, args.delta, schema=schema, sampler=args.sampler)
        most = schema.rows_per_person if by_person else None
        about = args.rows_about or schema.rows_about
        forecast = _forecast(args, schema.width, len(schema.classes), about, most)
        table = sources.tables_of(args, schema, shared.NoiseOptions.of(args))
        whom, again = None if by_person else False, sources.again(site, args, schema)
        site.fit_moments(table.X, None, agreed, schema=schema, person=whom, ledger=args.ledger, **again)
        return forecast
    noise, classes = shared.NoiseOptions.of(args), shared.declared_classes(args.classes)
    table = sources.tables_of(args, schema, noise)
    columns = _columns(args, table)
    forecast = _forecast(args, table.n_features, len(classes), args.rows_about, most)
    agreed = declared_moments(
        args.epsilon,
        args.delta,
        classes=classes,
        n_features=table.n_features,
        limits=args.range,
        radius=args.radius,
        rows_about=args.rows_about,
        rows_per_person=most,
        sampler=args.sampler,
    )
    seen = table.X if args.range is None else table.X.clip(*args.range)
    more = {"person": noise.persons(table), "columns": columns, "ledger": args.ledger}
    site.fit_moments(seen, table.y, agreed, **more, **sources.again(site, args, schema))
    return forecast


def _forecast(
    args: argparse.Namespace, width: int, n_classes: int, rows: int | None, per_person: int | None
) -> dict[str, Any]:
    """Say what the moments will be worth, from declared numbers; refused if the noise swamps the data."""
    from onefold.federated.declared import Forecast, forecast_moments

    remark = partial(say, quiet=False) if args.json else partial(print, flush=True)
    n_sites = args.sites or 1

    def at(n_rows: int) -> Forecast:
        units = n_rows / (per_person or 1)
        return forecast_moments(units, width, n_classes, args.epsilon, args.delta, n_sites=n_sites)

    if rows is None:
        # The number of rows is not looked at: a refusal would tell it.
        ladder = [digit * 10**power for power in range(1, 8) for digit in (1, 2, 5)]
        enough = next((n_rows for n_rows in ladder if not at(n_rows).swamped), None)
        good = next((n_rows for n_rows in ladder if at(n_rows).left >= GOOD), None)
        remark(
            "No forecast: no number of rows is declared (rowsAbout in the schema, or --rows-about N). With "
            f"{width} columns, {n_classes} classes, epsilon {args.epsilon:g} per {args.unit} at "
            f"{count_of(n_sites, 'site')} the noise swamps fewer than about {enough or 'ten million'} rows a "
            f"site; {GOOD:.0%} of what telling the classes apart gains over guessing takes about "
            f"{good or 'ten million or more'}."
        )
        return {}
    found = at(rows)
    people = "" if per_person is None else f" of {rows // per_person or 1} persons or more"
    words = (
        f"with about {rows} rows{people}, {width} columns, {n_classes} classes, epsilon {args.epsilon:g} per "
        f"{args.unit} at {count_of(n_sites, 'site')}: expect about {found.left:.0%} of what telling the "
        "classes apart gains over guessing"
    )
    told: dict[str, Any] = {"rows": rows, "sites": n_sites, "left": found.left}
    if args.accuracy_without_noise is not None:
        told["accuracy"] = found.accuracy(max(args.accuracy_without_noise, 1 / n_classes))
        words += f", an accuracy of about {told['accuracy']:.2f}"
    if found.swamped and not args.anyway:
        raise InvalidInputError(
            f"the noise would swamp the data, {words}; nothing was released. Have more rows or sites "
            "(--sites N), fewer columns or a larger --epsilon, or give --anyway"
        )
    remark(f"Forecast from declared numbers, no promise: {words}.")
    return {"forecast": told}


def _estimator(model: str, measure: str | None, scale: float | None, n_components: int, seed: int) -> Any:
    """The unfitted classifier; only distances in the units of the data need no common scale."""
    measure = measure or ("euclidean" if model == "wide" else "rms")
    if measure != "euclidean" and scale is None:
        raise InvalidInputError(f"--measure {measure} needs --scale F, the same number at all sites")
    machine: dict[str, Any] = {"n_components": n_components, "scale": "auto" if scale is None else scale}
    return shared.classifier_of(model, measure=measure, seed=seed, **machine)


def _tell(site: Site, as_json: bool, forecast: dict[str, Any]) -> None:
    """Print what the site says about itself, its limits, and what may leave it."""
    from onefold._base.records import plain_of
    from onefold.privacy import Guarantee

    profile, settings, leaves = site.profile, site.settings, site.model_may_leave
    limits = {"per_minute": settings.per_minute, "total": settings.total, "querier": settings.caller_total}
    promise = None if profile.guarantee is None else Guarantee.from_dict(profile.guarantee)
    predicts = "numbers to predict" if site.predicts_numbers else f"{len(profile.classes)} classes"
    words = [f"site {profile.site}: {predicts}, {profile.n_features} features"]
    if promise is not None:
        words += shared.promise_in_words(promise)
    elif not site.predicts_numbers:
        words.append(RAW)
    if not profile.sends_only_sums:
        words.append(
            f"Limits: {settings.per_minute} rows a minute, {settings.total} for ever, "
            f"{settings.caller_total} for each querier."
        )
        words.append(f"{WHOM_IN_WORDS[settings.approval]} (onefold federate approvals --help).")
    if profile.sends_only_sums:
        words += [MOMENTS_LEAVE] if site.sends_moments else []
    elif settings.sends == "private-model" and not leaves:
        words.append(
            "The model stays here: it has no guarantee that holds, and --send-raw-model was not given."
        )
    elif leaves:
        raw = "" if promise is not None and promise.holds else ", RAW ROWS INCLUDED"
        words.append(f"The model itself may go to the server{raw}.")
    else:
        what = "encrypted answers" if settings.sends == "sealed-answers" else "answers"
        sums = " and plain sums" if site.sends_plain_sums else ""
        words.append(f"The model stays here; only {what}{sums} leave.")
    words += _sums_in_words(site)
    if site.sends_plain_sums:
        plain = sources.PLAIN_NUMBERS if site.predicts_numbers else PLAIN_SUMS
        words.append(plain)
        say(plain, not as_json)
    told = {"profile": plain_of(profile, {}), "limits": limits, "model_may_leave": leaves}
    told |= {"sends_plain_sums": site.sends_plain_sums, "sends_moments": site.sends_moments} | forecast
    told |= {"approval": settings.approval, "predicts_numbers": site.predicts_numbers}
    show(told, words, as_json=as_json)


def _sums_in_words(site: Site) -> list[str]:
    """What the site does in encrypted sums; empty if it does nothing."""
    settings = site.settings
    if not settings.takes_part_in_sums:
        return []
    parts = [] if settings.sum_table is None else [f"adds the rows of {settings.sum_table}"]
    parts += [] if settings.sum_key is None else [f"has the key {settings.sum_key}"]
    does = " and ".join(parts)
    return [f"Encrypted sums that you have approved: this site {does} (onefold federate approvals list)."]


def _tell_sums(site: Site, as_json: bool) -> None:
    """Print what a site without a model does."""
    settings = site.settings
    words = [f"site {settings.name}: no model, no query is answered", *_sums_in_words(site)]
    told = {"site": settings.name, "sum_table": settings.sum_table, "sum_key": settings.sum_key}
    show(told, words, as_json=as_json)
