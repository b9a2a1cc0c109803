"""The ServerApp: ask every site once and combine what they answer."""

import secrets
import time
from collections.abc import Iterable
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.serverapp import Grid, ServerApp

from onefold._base.files import output_file
from onefold.exceptions import OnefoldError
from onefold.federated.messages import Answers, Failure, Profile, Query, from_bytes
from onefold.federated.server import GlobalClassifier

__all__ = ["app", "ask"]

app = ServerApp()


@app.main()  # type: ignore[untyped-decorator]
def main(grid: Grid, context: Context) -> None:
    """Read the rows, ask, combine, write the predictions."""
    config = context.run_config
    with np.load(str(config["queries"]), allow_pickle=False) as table:
        rows = table["X"]
    result = ask(
        grid,
        rows,
        rule=str(config["rule"]),
        n_liars=int(config["n-liars"]),
        min_sites=int(config["min-sites"]),
        timeout=float(config["timeout"]),
    )
    with output_file(str(config["out"])) as file:
        np.savez(
            file,
            predictions=result.labels,
            measures=result.measures,
            classes=result.classes,
            answered=np.array(result.answered),
            missing=np.array(result.missing),
        )


def ask(grid: Grid, rows: Any, *, rule: str, n_liars: int, min_sites: int, timeout: float) -> Any:
    """One combined result from whoever answers in time."""
    nodes = _wait_for_nodes(grid, min_sites, timeout)
    profiles: dict[int, Profile] = {}
    for node, message in _exchange(grid, nodes, "query.profile", None, timeout).items():
        # A site is who it says it is, unless the SuperLink knows its nodes by their keys.
        if isinstance(message, Profile) and message.site not in {p.site for p in profiles.values()}:
            profiles[node] = message
    query = Query(secrets.token_hex(16), np.asarray(rows, dtype=np.float64))
    replies = _exchange(grid, profiles, "query.answers", query, timeout)
    spoken = {profiles[node].site: m for node, m in replies.items() if isinstance(m, Answers | Failure)}
    declared = {profile.site: profile for profile in profiles.values()}
    return GlobalClassifier(rule, n_liars=n_liars).combine(spoken, declared, query=query, profiles=declared)


def _wait_for_nodes(grid: Grid, at_least: int, timeout: float) -> list[int]:
    deadline = time.monotonic() + timeout
    while len(nodes := list(grid.get_node_ids())) < at_least:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(nodes)} of {at_least} sites are connected")
        time.sleep(1.0)
    return nodes


def _exchange(grid: Grid, nodes: Iterable[int], kind: str, content: Any, timeout: float) -> dict[int, Any]:
    """Send the same to some nodes; what each of them replied, without those that failed or are late."""
    record = ConfigRecord({} if content is None else {"bytes": content.to_bytes()})
    envelopes = [
        Message(RecordDict({"message": record}), dst_node_id=node, message_type=kind) for node in nodes
    ]
    found = {}
    for reply in grid.send_and_receive(envelopes, timeout=timeout) if envelopes else ():
        if reply.has_error():
            continue
        try:
            found[int(reply.metadata.src_node_id)] = from_bytes(bytes(reply.content["message"]["bytes"]))
        except (OnefoldError, KeyError, TypeError):
            continue
    return found
