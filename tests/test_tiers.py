"""The limits of tests bite: a dear test without a mark fails, a marked one does not."""

from pathlib import Path

import pytest
from tests.tiers import YARDSTICK, verdict

pytest_plugins = ["pytester"]


@pytest.mark.parametrize(
    "cost, speed, marked, judged",
    [
        (0.9, YARDSTICK, False, None),
        (1.1, YARDSTICK, False, "warn"),
        (3.1, YARDSTICK, False, "fail"),
        (3.1, YARDSTICK, True, None),
        (3.1, 4 * YARDSTICK, False, None),  # a machine that takes four times as long for everything
        (1.1, YARDSTICK / 4, False, "fail"),
    ],
)
def test_a_price_is_judged_by_the_yardstick(cost: float, speed: float, marked: bool, judged: str) -> None:
    assert verdict(cost, speed, marked) == judged


def test_a_dear_test_fails_without_a_mark_and_passes_with_one(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(
        f"""
        import sys
        sys.path.insert(0, {str(Path(__file__).parents[1])!r})
        from tests import tiers
        tiers.yardstick = lambda: tiers.YARDSTICK / 20
        def pytest_configure(config):
            config.addinivalue_line("markers", "merge: ")
            config.pluginmanager.register(tiers.Prices(config))
        """
    )
    pytester.makepyfile(
        """
        import time
        import pytest

        def burn(seconds):
            start = time.process_time()
            while time.process_time() - start < seconds:
                pass

        def test_cheap(): pass
        def test_dear(): burn(0.2)
        def test_dearer_than_it_should_be(): burn(0.1)  # the system counts in hundredths
        @pytest.mark.merge
        def test_marked(): burn(0.2)
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:xdist")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*test_dear*", "DEAR*test_dearer_than_it_should_be*", "processor time: *"])


def test_tests_are_marked_merge_where_make_looks_for_them() -> None:
    """``make merge`` reads only files in which a mark, or the one helper that sets it, is written."""
    tests = Path(__file__).parent
    marking = {
        path.relative_to(tests).as_posix()
        for path in tests.rglob("*.py")
        if not path.name.startswith("test_") and "mark.merge" in path.read_text(encoding="utf-8")
    }
    assert marking == {"tiers.py"}
    assert "def later" in (tests / "tiers.py").read_text(encoding="utf-8").split("mark.merge")[0]
