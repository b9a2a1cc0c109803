"""Foreign texts: no pattern takes long for a long one, and no table hands a formula to a spreadsheet."""

import ast
import csv
import io
import re
import time
from collections import deque
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

import onefold
from onefold.tables import Field, Schema, read_table, write_table
from onefold.tables.writing import TEXT_FILES, WRITERS, write_rows

METHODS = ("fullmatch", "match", "search", "sub", "split", "findall", "finditer")
# What a text that is hard to refuse may be made of, beside the signs and words of the pattern itself.
USUAL = ["1", "a", "A", " ", ".", "-", "'", '"', "\n", "/*1", "--1", "://1:"]
ENDS = ["!", "\n"]


@cache
def sources() -> list[tuple[str, ast.Module]]:
    top = Path(onefold.__file__).parent
    texts = {path.relative_to(top).as_posix(): path.read_text("utf-8") for path in sorted(top.rglob("*.py"))}
    # Only files that may use a pattern, or write a table: parsing all of them takes seconds.
    named = re.compile(rf"\bre\.|\.({'|'.join(METHODS)})\(|\b(writer|DictWriter|savetxt|to_csv|write_csv)\b")
    return [(place, ast.parse(text)) for place, text in texts.items() if named.search(text)]


def patterns() -> dict[str, tuple[re.Pattern[str], set[str]]]:
    """Every regular expression of the package, and the methods by which it is used."""
    found: dict[str, tuple[re.Pattern[str], set[str]]] = {}
    used: dict[str, set[str]] = {}
    for place, tree in sources():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            owner, method = node.func.value, node.func.attr
            if isinstance(owner, ast.Name) and owner.id != "re" and method in METHODS:
                used.setdefault(owner.id, set()).add(method)
            if not isinstance(owner, ast.Name) or owner.id != "re" or method in ("escape", "error"):
                continue
            text = node.args[0]
            assert isinstance(text, ast.Constant), f"{place}:{node.lineno}: a pattern that is no literal"
            if method == "compile":
                found[f"{place}:{node.lineno}"] = (eval(ast.unparse(node), {"re": re}), set())  # noqa: S307
            else:
                found[f"{place}:{node.lineno}"] = (re.compile(text.value), {method})
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign) and f"{place}:{node.value.lineno}" in found:
                pattern, methods = found[f"{place}:{node.value.lineno}"]
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                if not methods:
                    found[f"{place}:{node.value.lineno}"] = (pattern, {f"of {name}" for name in names})
    return {
        place: (
            pattern,
            {
                m
                for name in methods
                for m in (used.get(name[3:], {"search"}) if name[:3] == "of " else {name})
            },
        )
        for place, (pattern, methods) in found.items()
    }


def _all(call: Callable[[str], object], text: str) -> None:
    found = call(text)
    if isinstance(found, Iterator):
        deque(found, maxlen=0)


def least_time(work: Callable[[str], object], text: str, times: int = 3) -> float:
    """Seconds for a text, the least of a few: other programs can only make it longer."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        work(text)
        taken.append(time.perf_counter() - start)
    return min(taken)


def pumped(pattern: str) -> Iterator[Callable[[int], str]]:
    """Texts of any length that begin as the pattern does, repeat a part of it, and end as it does not."""
    parts = re.findall(r"[A-Za-z]{2,}|[^\\\w\[\](){}|?*+]+|[$+*/]", pattern)
    units = list(dict.fromkeys([*USUAL, *parts]))
    head = re.match(r"[\w ]*", pattern)
    for start in {"", head[0] if head else ""}:
        for unit in [*units, *map("".join, permutations(units, 2))]:
            for end in ENDS:
                yield lambda n, start=start, unit=unit, end=end: start + unit * (n // len(unit)) + end


@pytest.mark.merge
def test_patterns_take_time_in_proportion_to_the_text() -> None:
    for place, (given, methods) in patterns().items():
        # A pattern of bytes is as fast as that of the same letters.
        pattern = given if isinstance(given.pattern, str) else re.compile(given.pattern.decode("latin-1"))
        for method in methods:
            call = getattr(pattern, method)
            work = partial(call, "") if method == "sub" else partial(_all, call)
            for text in pumped(pattern.pattern):
                if least_time(work, text(2_000), 1) < 1e-3:
                    continue  # ten times what a pattern in proportion takes
                # Of the eightfold text three times that time, with room for noise; a square would take 64.
                ratio = min(least_time(work, text(16_000)) / least_time(work, text(2_000)) for _ in range(2))
                assert ratio < 24, (place, method, text(20))


@pytest.mark.parametrize(
    "start, unit, end", [("", "1", "x"), ("", "1.", ""), ("", "1,", ""), ("$", " ", "!")]
)
def test_a_long_cell_does_not_hold_up_the_proposal_of_a_schema(start: str, unit: str, end: str) -> None:
    def propose(text: str) -> None:
        Schema.infer({"x": [text, "a", "b"] * 4})

    long, short = (start + unit * (n // len(unit)) + end for n in (32_000, 4_000))
    ratio = min(least_time(propose, long) / least_time(propose, short) for _ in range(2))
    assert ratio < 24  # eight times as long; a square would take 64 times


# --- formulas ---------------------------------------------------------------------------------------------

FORMULAS = [
    "=1+1", "=cmd|' /C calc'!A0", "+", "-", "+1+1", "-1-1", "-x", "@SUM(A1)", "'=1", "''=1", "'-1.5", "-1.5e",
    "\uff1d1", "\uff0b1", "\uff0d1", "\uff201", '=HYPERLINK("http://a","b")', "=1\n2", "-5;=1", "+49 1", "'+",
]  # fmt: skip
SAFE = ["a", "'a", "''", "'", "a=b", "-1.5", "+5", "-1,5", "-1.234,5", "-1e-5", "", "1-1", "a\n=b"]
RAW = ["\t=1", "\r=1", "\n=1", "\tx", "\rx", " =1", "  +x"]


def is_formula(cell: str) -> bool:
    """Whether a spreadsheet would calculate what another person wrote."""
    number = re.fullmatch(r"[-+]?[0-9.,]+(e[-+]?[0-9]+)?", cell)
    return number is None and (
        cell.strip()[:1] in {*"=+-@\uff1d\uff0b\uff0d\uff20"} - {""} or cell[:1] in {*"\t\r\n"}
    )


@pytest.mark.parametrize("suffix", TEXT_FILES)
def test_no_text_of_a_written_table_begins_a_formula(suffix: str, tmp_path: Path) -> None:
    cells = np.array([*FORMULAS, *SAFE, *RAW], dtype=object)
    columns = dict.fromkeys([*FORMULAS, *RAW, "usual"], cells) | {"fixed": cells.astype(str)}
    write_table(tmp_path / f"t{suffix}", columns)
    content = (tmp_path / f"t{suffix}").read_text(encoding="utf-8")
    rows = list(csv.reader(io.StringIO(content, newline=""), delimiter="\t" if suffix == ".tsv" else ","))
    assert len(rows) == len(cells) + 1
    assert not [cell for row in rows for cell in row if is_formula(cell)]
    assert {cell for row in rows[1:] for cell in row} >= {*SAFE}
    printed = io.StringIO(newline="")
    write_rows(printed, columns)
    assert not [
        cell for row in csv.reader(printed.getvalue().splitlines()) for cell in row[:1] if is_formula(cell)
    ]


@pytest.mark.parametrize("suffix", [suffix for suffix in WRITERS if suffix != ".pq"])
def test_a_written_table_is_read_back_to_the_last_sign(suffix: str, tmp_path: Path) -> None:
    texts = [*FORMULAS, *filter(None, SAFE)]
    schema = Schema(
        [
            *(Field(name, "string", levels=tuple(texts)) for name in ("=level", "usual")),
            Field("-number", low=-10, high=10),
            Field("@class", "string", role="label", levels=tuple(texts)),
        ]
    )
    columns = {name: np.array(texts) for name in ("=level", "usual", "@class")}
    columns["-number"] = np.linspace(-10, 10, len(texts))
    write_table(tmp_path / f"t{suffix}", columns, schema)
    table = read_table(tmp_path / f"t{suffix}", schema=schema)
    parsed = schema.parse(table)
    assert all(parsed[name].tolist() == list(range(len(texts))) for name in ("=level", "usual"))
    assert parsed["-number"].tolist() == columns["-number"].tolist()
    assert schema.labels(table)[0].tolist() == texts


def test_numbers_stay_numbers(tmp_path: Path) -> None:
    write_table(tmp_path / "t.csv", {"x": np.array([-1.5, np.inf, -np.inf]), "n": np.array([-1, 0, 1])})
    assert (tmp_path / "t.csv").read_text() == "x,n\n-1.5,-1\ninf,0\n-inf,1\n"


def test_text_files_of_tables_are_written_in_one_place() -> None:
    writers = {
        place
        for place, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and node.attr in ("writer", "DictWriter", "savetxt", "to_csv", "write_csv")
    }
    assert writers == {"tables/writing.py"}
