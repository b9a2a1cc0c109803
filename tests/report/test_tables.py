"""Plain-text tables."""

import pytest

from onefold.report import format_table


def test_format_table_aligns_wide_characters_numbers_and_empty_cells() -> None:
    text = format_table(["name", "n", "share"], [["αβγ", 5, 0.25], ["日本", 12345, 1.0], ["a\nb", None, 0.5]])
    assert text.splitlines() == [
        "name      n   share",
        "----  -----  ------",
        "αβγ       5  0.2500",
        "日本  12345  1.0000",
        "a b          0.5000",
    ]


def test_format_table_without_rows_is_its_header() -> None:
    assert format_table(["a", "bc"], []) == "a  bc\n-  --"


def test_format_table_refuses_a_short_row() -> None:
    with pytest.raises(ValueError, match="one cell for each header"):
        format_table(["a", "b"], [["x"]])
