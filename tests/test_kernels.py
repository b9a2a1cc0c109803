"""The run of the exact tests under several kernels: what it starts, what it skips, and how it ends."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from typing import Any

import pytest

import kernels

Start = Callable[..., list[dict[str, str]]]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Start:
    """Replace the runs of pytest: the environments they would have, with the exit codes given."""

    def replace(
        features: set[str], code: Callable[[dict[str, str]], int] = lambda _: 0
    ) -> list[dict[str, str]]:
        started: list[dict[str, str]] = []

        def run(command: list[str], env: dict[str, str], check: bool) -> Any:
            started.append({**env, "arguments": " ".join(command[4:])})
            return subprocess.CompletedProcess(command, code(env))

        monkeypatch.setattr(kernels, "_features", lambda: dict.fromkeys(features, True))
        monkeypatch.setattr(kernels.subprocess, "run", run)
        monkeypatch.delenv("OPENBLAS_CORETYPE", raising=False)
        return started

    return replace


def settings(started: list[dict[str, str]]) -> list[tuple[str | None, str]]:
    return [(each.get("OPENBLAS_CORETYPE"), each["OPENBLAS_NUM_THREADS"]) for each in started]


def test_exact_tests_run_once_under_each_kernel_and_with_each_number_of_threads(start: Start) -> None:
    started = start({"SSE3", "AVX2", "AVX512_SKX"})
    assert kernels.main([]) == 0
    assert settings(started) == [("Haswell", "1"), ("SkylakeX", "2")]
    assert all("-m exact" in each["arguments"] for each in started)
    assert all("test_local_model_forget.py" in each["arguments"] for each in started)


def test_kernel_that_the_processor_lacks_is_skipped_and_the_other_has_each_number_of_threads(
    start: Start, capsys
) -> None:
    started = start({"SSE3", "AVX2"})
    assert kernels.main([]) == 0
    assert settings(started) == [("Haswell", "1"), ("Haswell", "2")]
    assert "SkylakeX: SKIPPED, this processor has no AVX512_SKX" in capsys.readouterr().out


def test_processor_without_any_of_the_kernels_runs_its_own(start: Start, capsys) -> None:
    started = start({"ASIMD"})
    assert kernels.main([]) == 0
    assert settings(started) == [(None, "1"), (None, "2")]
    assert capsys.readouterr().out.count("SKIPPED") == 2


def test_one_failing_setting_is_named_and_the_others_still_run(start: Start, capsys) -> None:
    def code(env: dict[str, str]) -> int:
        return int((env["OPENBLAS_CORETYPE"], env["OPENBLAS_NUM_THREADS"]) == ("Haswell", "1"))

    started = start({"AVX2", "AVX512_SKX"}, code)
    assert kernels.main([]) == 1
    assert len(started) == 2
    assert capsys.readouterr().out.endswith("FAILED under Haswell with 1 BLAS thread(s)\n")


def test_full_run_takes_every_kernel_and_the_given_arguments(start: Start) -> None:
    started = start({"SSE3", "AVX2", "AVX512_SKX"})
    assert kernels.main(["--full", "-m", "not merge", "tests"]) == 0
    assert set(settings(started)) == {(kernel, threads) for kernel in kernels.KERNELS for threads in "12"}
    assert len(started) == 2 * len(kernels.KERNELS)
    assert {each["arguments"] for each in started} == {"-m not merge tests"}
