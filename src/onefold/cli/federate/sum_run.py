"""``onefold federate sum run``: all steps of an encrypted sum among the sites of a running federation."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onefold.cli import arguments as shared
from onefold.cli.arguments import option
from onefold.cli.console import say
from onefold.cli.federate import common, sums
from onefold.cli.federate.approvals import own_signing_key
from onefold.cli.federate.sums import CONTRACT, add_result, add_round, check_result, finish, round_of
from onefold.exceptions import InvalidInputError

if TYPE_CHECKING:
    from onefold.federated import OpenedSum
    from onefold.federated.sums.round_files import RoundFiles

__all__ = ["add_sum"]


def add_sum(parts: Any) -> None:
    """Declare ``sum`` and its parts."""
    _add_run(sums.add_sum(parts))


def _add_run(steps: Any) -> None:
    parser = steps.add_parser(
        "run",
        help="have the sites of a running federation take all steps of a round, and open the sum",
        description="Have the sites of a running federation contribute, the key holders among them sign and "
        "answer, and open the sum. Each site waits for its data owner's approval. All that comes back is "
        "written to the folder of the round first: the command can be stopped and run again, and goes on "
        "from there. A key holder is asked at the site of the same name; others take part by files.",
        epilog="A site takes part that was started with --sum-table, or with --sum-key as key holder; its "
        "data owner decides with onefold federate approvals. Exit code 1: sites or key holders are missing.",
    )
    add_round(parser)
    common.add_folder(parser)
    add_result(parser)
    option(parser, "--without SITE", "sites to leave out; fixed once a holder signs", default=[], nargs="+")
    name = (
        "name of the querier, or a .signkey file; the key is made if there is none (default: your user name)"
    )
    option(parser, "--querier NAME", name)
    purpose = "what the sum is for: a line that is signed and shown to the data owners"
    option(parser, "--purpose TEXT", purpose, default="")
    wait = "seconds to go on asking sites that are not there or wait for approval"
    option(parser, "--wait S", wait, shared.not_negative, 0.0)
    option(parser, "--timeout S", "seconds that a site has for one step", shared.positive, 300.0)
    parser.set_defaults(run=run_round)


def run_round(args: argparse.Namespace) -> int:
    """Drive the round, then do what ``open`` does."""
    from onefold.federated.flower import Federation, SumRound

    this = round_of(args)
    check_result(args, this, whole=True)
    federation = Federation(args.folder)
    key = own_signing_key(args.querier, args.quiet)
    say(this.in_words, args.quiet)

    def opened(files: RoundFiles) -> OpenedSum:
        asked = SumRound(
            federation.folder,
            files.summed,
            files.share,
            key,
            purpose=args.purpose,
            timeout=args.timeout,
            say=lambda line: say(line, args.quiet),
        )
        without = [site for site in args.without if site in files.contract.sites or files is this]
        return asked.run(without, args.wait)

    if this.summed.is_first:
        second = _second(this, opened)
        say(second.in_words, args.quiet)
        return finish(args, second, opened(second))
    return finish(args, this, opened(this))


def _second(first: RoundFiles, opened: Callable[[RoundFiles], OpenedSum]) -> RoundFiles:
    """The second of two rounds, once the first is opened; its contract is kept beside that of the first."""
    from onefold.federated import SchemaSum
    from onefold.federated.sums.round_files import ANSWER, RoundFiles

    path = first.share / f"{first.contract.round_id.removesuffix('-1')}-2{CONTRACT}"
    if not path.is_file():
        opened(first)
        answers = first.found(first.holders, ANSWER).values()
        first.summed.proceed(answer.read_bytes() for answer in answers).save(path)
    found = SchemaSum.load(path)
    if found.first is None or found.first.total.contract.digest != first.contract.digest:
        raise InvalidInputError(f"{path}: this is not the second round of {first.contract.round_id}")
    return RoundFiles(found, first.share)
