"""Plain-text tables."""

import doctest

import pytest

from onefold.report import format_table, tables


def test_documented_example() -> None:
    result = doctest.testmod(tables)
    assert result.attempted > 0
    assert result.failed == 0


def test_columns_line_up_whatever_the_cells() -> None:
    text = format_table(["name", "n", "share"], [["αβγ", 5, 0.25], ["日本", 12345, 1.0], ["a\nb", None, 0.5]])
    assert text.splitlines() == [
        "name      n   share",
        "----  -----  ------",
        "αβγ       5  0.2500",
        "日本  12345  1.0000",
        "a b          0.5000",
    ]


def test_a_table_without_rows_is_its_header() -> None:
    assert format_table(["a", "bc"], []) == "a  bc\n-  --"


def test_a_row_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="one cell for each header"):
        format_table(["a", "b"], [["x"]])
