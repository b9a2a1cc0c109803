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
        tiers.yardstick = lambda: tiers.YARDSTICK / 100
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
        def test_dearer_than_it_should_be(): burn(0.02)
        @pytest.mark.merge
        def test_marked(): burn(0.2)
        """
    )
    result = pytester.runpytest_inprocess("-p", "no:randomly", "-p", "no:xdist")
    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*test_dear*", "DEAR*test_dearer_than_it_should_be*", "processor time: *"])
