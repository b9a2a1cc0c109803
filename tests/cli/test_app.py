"""The command as a whole: help, versions, signals, pipes."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import onefold as package
from onefold.cli.app import COMMANDS, main

NAMES = list(COMMANDS)


def test_commands_and_their_order() -> None:
    assert NAMES == [
        "demo",
        "schema",
        "check",
        "fit",
        "predict",
        "fabricate",
        "synthesize",
        "release",
        "transfer",
        "audit",
        "ledger",
        "federate",
        "report",
        "serve",
    ]


def test_help_of_every_command_goes_to_standard_output(capsys) -> None:
    for name in NAMES:
        assert main([name, "--help"]) == 0, name
        shown = capsys.readouterr()
        assert shown.out.startswith(f"usage: onefold {name}")
        assert shown.err == "", name


def test_help_lists_every_command_and_version_prints_one_line(process) -> None:
    shown = process("--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert re.findall(r"^    ([a-z]+)", shown.stdout, flags=re.MULTILINE) == NAMES
    assert process("--version").stdout == f"onefold {package.__version__}\n"


def test_help_does_not_import_scikit_learn() -> None:
    code = (
        "import sys; from onefold.cli.app import main; main(['--help']); sys.exit('sklearn' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


@pytest.mark.merge
def test_closed_standard_output_ends_with_code_141_without_a_message(digits, tmp_path: Path) -> None:
    model = tmp_path / "m"
    assert main(["fit", str(digits.train["npz"]), "--label", "y", "--out", str(model), "--quiet"]) == 0
    command = [sys.executable, "-m", "onefold", "predict", str(model), str(digits.test["npz"]), "--out", "-"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141


@pytest.mark.merge
@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_interruption_prints_one_line_and_ends_with_code_130(tmp_path: Path) -> None:
    # A FIFO nobody writes to keeps the command waiting at a known place: inside its own run.
    pipe = tmp_path / "wait.npz"
    os.mkfifo(pipe)
    code = (
        "import os, signal, sys; from onefold.cli import app, fit\n"
        # A test run in the background may have been started with the signal ignored.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        f"fit._rows = lambda *a, **k: (os.write(2, b'now'), open({str(pipe)!r}))\n"
        f"sys.exit(app.main(['fit', 'x.csv', '--label', 'y', '--out', {str(tmp_path / 'm')!r}]))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert process.stderr.read(3) == b"now"
        time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        assert process.stderr.read() == b"onefold: error: interrupted\n"
        assert process.wait() == 130


def test_error_in_the_program_is_raised_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise AssertionError("a bug")

    monkeypatch.setattr("onefold.cli.demo.compare", broken)
    with pytest.raises(AssertionError, match="a bug"):
        main(["demo"])
