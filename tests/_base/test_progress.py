"""Progress bars keep quiet unless asked, and never lose an item."""

import pytest

from onefold._base.optional import require
from onefold._base.progress import track
from onefold.exceptions import MissingDependencyError


@pytest.mark.parametrize("show", [None, True, False])
def test_items_pass_unchanged(show, capsys):
    assert list(track(range(5), 5, "counting", show)) == [0, 1, 2, 3, 4]
    captured = capsys.readouterr()
    assert captured.out == ""
    assert ("counting" in captured.err) == (show is True)


def test_a_missing_dependency_names_the_extra():
    with pytest.raises(
        MissingDependencyError, match=r"absent_package is needed here: pip install 'onefold\[report\]'"
    ):
        require("absent_package.part", "report")


def test_a_present_dependency_is_returned():
    assert require("json", "report").dumps([1]) == "[1]"
