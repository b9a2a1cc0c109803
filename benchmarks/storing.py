"""Keep what was measured: ``--store`` writes the tables that the results page shows.

Seconds and bytes of one machine are no values that another one could be held to, so a suite is stored as
tables. Those whose numbers stand on the results page have a function here that arranges them for readers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.timing import Row
from experiments import stored
from experiments.harness import machine

Table = dict[str, Any]
RESULTS = Path(__file__).parent.parent / "experiments" / stored.RESULTS / "benchmarks"


def store(suite: str, rows: Sequence[Row], arguments: Sequence[str], seconds: float) -> Path:
    """Merge the rows of one suite into its stored result; where it is."""
    path = RESULTS / f"{suite.replace('-', '_')}.json"
    run = {
        "date": stored.now(),
        "arguments": list(arguments),
        "seeds": None,
        "rows": None,
        "seconds": round(seconds, 1),
        "machine": machine(),
    }
    stored.store(path, run, {}, TABLES[suite](rows), {})
    return path


# --- one function for each suite with tables ----------------------------------------------------------------


def sum_costs(rows: Sequence[Row]) -> list[Table]:
    """Seconds and bytes of every role; plain sums once for each size."""
    lines: list[list[str | None]] = []
    for row in rows:
        if not row.details:
            continue
        size, sites, way = row.name.split(":")[0].split(", ")
        start = [size.split()[0], sites.split()[0]]
        each = row.details
        if not lines or lines[-1][:2] != start:
            plain = [_seconds(each["plain site seconds"]), _bytes(each["plain site bytes"])]
            lines.append([*start, "plain", *plain, _seconds(each["plain server seconds"]), None, None, None])
        lines.append(
            [
                *start,
                way,
                _seconds(each["site seconds"]),
                _bytes(each["site bytes"]),
                _seconds(each["server seconds"]),
                _seconds(each["busiest holder seconds"]),
                _bytes(each["busiest holder bytes"]),
                _seconds(each["querier seconds"]),
            ]
        )
    headers = [
        "numbers",
        "sites",
        "",
        "a site",
        "a site sends",
        "server",
        "busiest holder",
        "it gets",
        "querier",
    ]
    return [_table("Cost", headers, lines, 3)]


def sums_network(rows: Sequence[Row]) -> list[Table]:
    """What one round costs over Flower, and what nothing costs."""
    found = [row.details for row in rows if row.details]
    headers = [
        "numbers",
        "a site sends",
        "gets",
        "processor",
        "a site that is a holder sends",
        "gets",
        "processor",
        "server",
        "the round",
    ]
    lines = [
        [
            str(each["numbers"]),
            _bytes(each["site sends"]),
            _bytes(each["site gets"]),
            _seconds(each["site CPU s"]),
            _bytes(each["holder sends"]),
            _bytes(each["holder gets"]),
            _seconds(each["holder CPU s"]),
            _seconds(each["server CPU s"]),
            _seconds(each["seconds of the round"]),
        ]
        for each in found
    ]
    idle = [
        [
            str(each["numbers"]),
            _seconds(each["idle site CPU s per minute"]),
            _bytes(each["idle site bytes per minute"]),
            _seconds(each["idle server CPU s per minute"]),
            f"{each['largest process of a site MiB']:.0f} MiB",
            f"{each['largest process of the server MiB']:.0f} MiB",
        ]
        for each in found
    ]
    still = ["numbers", "a site in an idle minute", "it sends and gets", "the server in an idle minute"]
    return [
        _table("Over the network", headers, lines, 1),
        _table("At rest", [*still, "largest process of a site", "of the server"], idle, 1),
    ]


def load(rows: Sequence[Row]) -> list[Table]:
    """Answers, throughput, processor seconds and memory."""
    by_name = {row.name.split(": ", 1)[1]: row for row in rows}
    checked = by_name["answers that differ from one process"]
    each = checked.details
    times = ["p50_s", "p95_s", "p99_s", "max_s"]
    answered = each["queries"] - each["no_answer"]
    queries = [
        f"{each['queries']} of {each['wanted']}",
        str(answered),
        f"{checked.ratio:.0f}",
        str(each["no_answer"]),
        str(each["partial"]),
        *(f"{each[name]:.1f}" for name in times),
    ]
    titles = ["queries", "answered", "wrong", "without an answer", "partial", "latency s: median"]
    tables = [_table("Queries", [*titles, "95 %", "99 %", "longest"], [queries], 1)]
    beside = {name: row for name, row in by_name.items() if name.startswith("queries a second")}
    if beside:
        ours = next(iter(beside.values())).details["queries_per_second"]
        throughput: list[list[str | None]] = [["federation, 64 queries in flight", f"{ours:.1f}", None]]
        for name, row in beside.items():
            theirs = f"{row.details['plain_queries_per_second']:.2f}"
            throughput.append([f"plain Flower app, {name.split(', ')[-1]}", theirs, f"{row.ratio:.2f}"])
        tables.append(_table("Throughput", ["", "queries a second", "ratio"], throughput, 1))
    asking = by_name["processor seconds, starting a process to ask / asking from one that runs"].details
    spent = asking["by_process"]
    names = sorted({name for part in spent.values() for name in part})
    cpu = [[name, *(f"{spent[part].get(name, 0.0):.4f}" for part in ("alone", "fast"))] for name in names]
    total = ["all processes of server and sites"]
    total += [f"{asking[f'{part}_cpu_seconds']:.3f}" for part in ("alone", "fast")]
    of_query = ["processor seconds of one query", "asked alone", "64 in flight"]
    tables.append(_table("Processor seconds", of_query, [*cpu, total], 1))
    querier = [
        ["a query from a program that runs", f"{asking['querier_cpu_seconds']:.3f} s"],
        ["starting a program to ask", f"{asking['start_up_cpu_seconds']:.2f} s"],
    ]
    tables.append(_table("Querier", ["what the querier spends", "processor seconds"], querier, 1))
    if memory := by_name.get("memory, last third / middle"):
        kinds: dict[str, dict[str, Any]] = {}
        for one in memory.details["processes"]:  # the fastest growing ones come first
            kinds.setdefault(one["process"], one)
        thirds = ("middle_third_mib", "last_third_mib")
        lines = [
            [kind, *(f"{one[third]:.0f}" for third in thirds), f"{one['ratio']:.3f}"]
            for kind, one in kinds.items()
        ]
        worst = "memory, MiB, the worst process of each kind"
        tables.append(_table("Memory", [worst, "middle third", "last third", "ratio"], lines, 1))
    return tables


def sums(rows: Sequence[Row]) -> list[Table]:
    """Accuracy of shared noise beside one release and own noise; of two kinds of own noise the better one."""
    lines, errors = [], []
    for row in rows:
        each = row.details or {}
        own = max(
            (name for name in each if name.startswith("own") and "error" not in name), key=each.__getitem__
        )
        ways = ("one release", "shared", "shared, 3 sites may fail", own)
        lines.append([row.name.split(":")[0], *(f"{each[way]:.4f}" for way in ways)])
        if f"{own}, standard error" in each:
            errors.append([lines[-1][0], *(f"{each[f'{way}, standard error']:.4f}" for way in ways)])
    ways = (
        "one release of all records",
        "shared noise, 1 site may fail",
        "3 may fail",
        "own noise at each site",
    )
    headers = ["data", *ways]
    return [_table("Accuracy", headers, lines, 1), _table("Standard errors of accuracy", headers, errors, 1)]


TABLES: dict[str, Callable[[Sequence[Row]], list[Table]]] = {
    "load": load,
    "sum-costs": sum_costs,
    "sums": sums,
    "sums-network": sums_network,
}


def _table(title: str, headers: Sequence[str], rows: Sequence[Sequence[Any]], named_by: int) -> Table:
    lines = [list(row) for row in rows]
    return {"title": title, "headers": list(headers), "rows": lines, "named_by": named_by}


def _seconds(seconds: float) -> str:
    return f"{seconds:.3f} s" if seconds < 1 else f"{seconds:.1f} s"


def _bytes(count: float) -> str:
    return f"{count / 1e6:.2f} MB" if count < 1e7 else f"{count / 1e6:.0f} MB"
