"""Reports of experiments: what was measured, by which runs, and how the numbers go with what was varied."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from experiments.pictures import CurvesDisplay
from onefold.exceptions import InvalidInputError
from onefold.report import Report, Section

# A number that stands alone in a name, and what stands between the parts of a name.
NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.%-])")
SEPARATORS = re.compile(r"[/=,:()]+")
AXES = (
    "epsilon",
    "eps",
    "lam",
    "lambda",
    "delta",
    "n",
    "p",
    "q",
    "rows",
    "sites",
    "classes",
    "layers",
    "noise",
)
FEWEST_PLACES, MOST_LINES, MOST_CURVES = 3, 5, 6
MOST_LISTED, LISTED_AT_ONCE = 600, 30  # values that a page lists, and under one heading
FAR = 30.0  # places that differ by a larger factor stand on a logarithmic axis
MEASURED = "How it was measured"
RUN_COLUMNS = ("date", "numbers", "arguments", "seeds", "rows", "seconds", "copied from", "onefold")
QUICK = (
    "This was a quick run of small sizes: it shows that the experiment works, and its numbers mean nothing."
)
CONDITIONS = (
    "The numbers are those of these data, seeds and settings; other data give others.",
    "Seconds and memory are those of this machine.",
    "Nothing here is a promise of privacy: where rows are private, the page of the release says what is "
    "promised.",
)


def of_experiment(plain: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> Report:
    """Report on an experiment."""
    try:
        name, values = str(plain["experiment"]), _values(plain["values"])
        runs = _runs(plain)
        tables = [_table(table) for table in plain["tables"]]
        found = [*_curves(values), *tables, *_listed(values, bool(tables)), _about_runs(runs)]
        told = _verdict(name, plain, values, runs)
    except (AttributeError, KeyError, TypeError, ValueError):
        raise InvalidInputError("this is not the result of an experiment") from None
    differing = [str(line) for line in plain.get("deviations") or ()]
    more = [Section("Numbers that differ from those of earlier runs", notes=differing)] if differing else []
    last = Section("What these numbers do not say", notes=CONDITIONS)
    files = [Section("Files that this page is about", facts=facts)] if facts else []
    return Report("experiment", f"Experiment {name}", told, [*found, *more, last, *files])


def _values(given: Mapping[str, Any]) -> dict[str, float]:
    return {str(name): float(value) for name, value in given.items() if math.isfinite(float(value))}


def _runs(plain: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Stored results name their runs; what a script prints is one run."""
    runs = plain.get("runs")
    if runs is None:
        return [{"machine": plain.get("machine") or {}, "measured": list(plain["values"])}]
    return [run for run in runs if isinstance(run, Mapping)]


def _verdict(
    name: str, plain: Mapping[str, Any], values: Mapping[str, float], runs: Sequence[Mapping[str, Any]]
) -> list[str]:
    by = f", from {len(runs)} runs" if len(runs) > 1 else ""
    told = [f"This is the result of the experiment {name}: {_count(len(values), 'number')}{by}."]
    if plain.get("quick"):
        told.append(QUICK)
    if "deviations" in plain and not plain.get("quick"):
        differing = len(plain["deviations"])
        told.append(
            f"{_count(differing, 'of them differs', 'of them differ')} from earlier runs by more than is "
            "tolerated."
            if differing
            else "None differs from earlier runs by more than is tolerated."
        )
    copied = sum(len(run["measured"]) for run in runs if run.get("transcribed"))
    if copied:
        which = "All of them" if copied == len(values) else f"{copied} of them"
        told.append(f"{which} were copied from an older page of results; the raw result is not kept.")
    return told


def _count(number: int, one: str, several: str | None = None) -> str:
    return f"{number} {one if number == 1 else several or f'{one}s'}"


def _about_runs(runs: Sequence[Mapping[str, Any]]) -> Section:
    """One run as facts; several as a table, with what all of them share below it."""
    told = [_about(run) for run in runs]
    if len(told) == 1:
        return Section(MEASURED, facts=told[0])
    names = list(dict.fromkeys(name for facts in told for name in facts))
    same = {name: told[0].get(name) for name in names if len({str(facts.get(name)) for facts in told}) == 1}
    headers = [name for name in RUN_COLUMNS if name in names and name not in same]
    rows = [[_cell(facts.get(name)) for name in headers] for facts in told]
    if not headers:
        return Section(MEASURED, facts={"runs": len(told), **same})
    return Section(MEASURED, facts={"runs": len(told), **same}, headers=headers, rows=rows)


def _about(run: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "date": run.get("date"),
        "numbers": len(run["measured"]),
        "arguments": " ".join(map(str, run.get("arguments") or ())) or None,
        "seeds": _short(run.get("seeds")),
        "rows": _short(run.get("rows")),
        "seconds": run.get("seconds"),
        "copied from": run.get("source") if run.get("transcribed") else None,
    }
    facts |= {str(name): _short(value) for name, value in (run.get("machine") or {}).items()}
    return {key: value for key, value in facts.items() if value is not None}


def _short(value: Any) -> Any:
    """A plain value; lists and objects in one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_short(part)}" for name, part in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _table(table: Mapping[str, Any]) -> Section:
    headers = [str(name) for name in table["headers"]]
    rows = [[_cell(cell) for cell in row] for row in table["rows"]]
    return Section(str(table["title"]), headers=headers, rows=rows)


def _cell(cell: Any) -> Any:
    if cell is None or (isinstance(cell, float) and not math.isfinite(cell)):
        return "–"
    return cell if isinstance(cell, str | int | float) else str(_short(cell))


def _listed(values: Mapping[str, float], has_tables: bool) -> list[Section]:
    """The values one by one, where no table shows them and they are few."""
    if has_tables or len(values) > MOST_LISTED:
        return []
    rows = [[name, value] for name, value in values.items()]
    parts = [rows[start : start + LISTED_AT_ONCE] for start in range(0, len(rows), LISTED_AT_ONCE)]
    return [
        Section(
            "The numbers" if len(parts) == 1 else f"The numbers, part {place} of {len(parts)}",
            headers=["what", "value"],
            rows=part,
        )
        for place, part in enumerate(parts, 1)
    ]


# --- numbers against what was varied --------------------------------------------------------------------


def _curves(values: Mapping[str, float]) -> Iterator[Section]:
    """A picture for every measure that was taken at three or more places along one axis."""
    pictures: dict[tuple[str, str], dict[str, dict[float, float]]] = defaultdict(dict)
    for (before, after), line in _lines(values).items():
        words, rest = before.split(), after.split()
        axis = words.pop() if words and words[-1].lower() in AXES else "what was varied"
        measure = rest.pop() if rest else "value"
        pictures[axis, measure][" ".join([*words, *rest]) or measure] = line
    drawn = 0
    for (axis, measure), lines in pictures.items():
        for subject, places, curves in _by_subject(lines):
            if drawn == MOST_CURVES:
                return
            drawn += 1
            far = places[0] > 0 and places[-1] / places[0] > FAR
            display = CurvesDisplay(places, curves, axis, measure, "x" if far else "")
            heading = f"{subject}: {measure}" if subject else f"{measure} against {axis}"
            yield Section(heading[:1].upper() + heading[1:], display=display)


def _lines(values: Mapping[str, float]) -> dict[tuple[str, str], dict[float, float]]:
    """Numbers by the text before and after the one number in their names that varies most."""
    found: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    places: dict[str, list[tuple[tuple[str, str], float]]] = {}
    for name, value in values.items():
        text = SEPARATORS.sub(" ", name)
        places[name] = [
            ((text[: match.start()].strip(), text[match.end() :].strip()), float(match[0]))
            for match in NUMBER.finditer(text)
        ]
        for line, place in places[name]:
            found[line][place] = value
    kept: dict[tuple[str, str], dict[float, float]] = defaultdict(dict)
    for name, options in places.items():
        if options:
            line, place = max(options, key=lambda option: len(found[option[0]]))
            kept[line][place] = values[name]
    return {line: numbers for line, numbers in kept.items() if len(numbers) >= FEWEST_PLACES}


def _by_subject(
    lines: Mapping[str, Mapping[float, float]],
) -> Iterator[tuple[str, list[float], dict[str, list[float]]]]:
    """Lines that share their first word and their places, a few at a time."""
    alike: dict[tuple[str, tuple[float, ...]], dict[str, list[float]]] = defaultdict(dict)
    first = Counter(name.split()[0] for name in lines)
    for name, line in lines.items():
        subject, _, rest = name.partition(" ")
        shared = rest and first[subject] > 1
        places = tuple(sorted(line))
        numbers = [line[place] for place in places]
        alike[subject if shared else "", places][rest if shared else name] = numbers
    for (subject, places), curves in alike.items():
        names = list(curves)
        for start in range(0, len(names), MOST_LINES):
            yield subject, list(places), {name: curves[name] for name in names[start : start + MOST_LINES]}
