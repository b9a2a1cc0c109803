"""Forty tables, real and ugly, give what they gave: an output changes in a commit of its own, with a reason.

``python -m tests.corpus`` stores the outputs of this version.
"""

import pytest
from tests.tiers import later

from corpus.outputs import differences, labels, outputs, stored


def test_the_corpus_has_forty_tables_of_which_fifteen_are_real() -> None:
    assert len(labels()) >= 40
    assert sum(not name.startswith("ugly") for name in labels()) >= 15


DEAR = ("ugly-wide.csv", "digits.csv", "fertility.csv")


@pytest.mark.parametrize("table", later(labels(), lambda table: table not in DEAR))
def test_a_table_gives_what_it_gave(table: str) -> None:
    assert differences(stored(table), outputs(table)) == []


def test_a_changed_output_is_seen() -> None:
    table = next(iter(labels()))
    before, after = stored(table), stored(table)
    first = next(name for name in after["schema"]["fields"] if "constraints" in name)
    first["constraints"]["minimum"] = 12345.0
    assert len(differences(before, after)) == 1
