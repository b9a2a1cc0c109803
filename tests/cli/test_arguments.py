"""Options that several commands share: their help lines, and values that no command could use."""

import argparse

import pytest

from onefold.cli import arguments


def test_option_takes_spellings_value_names_and_default_from_one_line() -> None:
    parser = argparse.ArgumentParser()
    arguments.option(parser, "--sites --owners N", "number of sites", arguments.whole, 5)
    arguments.option(parser, "--range LOW HIGH", "smallest and largest value", float)
    arguments.option(parser, "--delta D", "delta of the guarantee", arguments.fraction, 1e-5)
    arguments.repeated(parser, "--ignore COL", "column to leave out")
    arguments.flag(parser, "--json", "print JSON")
    args = parser.parse_args(["--owners", "3", "--range", "0", "1", "--ignore", "a", "--ignore", "b"])
    assert vars(args) == {"sites": 3, "range": [0.0, 1.0], "delta": 1e-5, "ignore": ["a", "b"], "json": False}
    shown = " ".join(parser.format_help().split())
    for line in (
        "--owners N number of sites (default: 5)",
        "--range LOW HIGH smallest and largest value --",
        "--delta D delta of the guarantee (default: 1e-5)",
        "--ignore COL column to leave out (repeatable)",
    ):
        assert line in shown


@pytest.mark.parametrize(
    "kind, good, bad",
    [
        (arguments.whole, {"1": 1, "70": 70}, ["0", "-1", "1.5", "x", ""]),
        (arguments.seed, {"0": 0, "4294967295": 2**32 - 1}, ["-1", "4294967296", "x"]),
        (arguments.jobs, {"-1": -1, "2": 2}, ["0", "-2", "x"]),
        (arguments.fraction, {"0.5": 0.5}, ["0", "1", "nan", "x"]),
        (arguments.positive, {"2": 2.0}, ["0", "-1", "inf", "nan", "x"]),
        (arguments.not_negative, {"0": 0.0}, ["-1", "inf", "nan", "x"]),
        (arguments.scale, {"none": "none", "auto": "auto", "2": 2.0}, ["0", "inf", "nan", "x"]),
        (arguments.key_id, {"0f" * 32: "0f" * 32}, ["0f", "0F" * 32, "0f" * 33]),
    ],
)
def test_type_of_values_takes_the_good_and_refuses_the_bad(
    kind, good: dict[str, object], bad: list[str]
) -> None:
    assert {text: kind(text) for text in good} == good
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError, match=r"^must be "):
            kind(text)


def test_names_on_the_command_line_are_those_of_the_library() -> None:
    from onefold.cli.federate import site as command
    from onefold.datasets import splitting
    from onefold.federated.simulate import LIES
    from onefold.models import MEASURES
    from onefold.privacy.terms import UNITS

    parser = argparse.ArgumentParser()
    arguments.add_noise_options(parser, required=False, sensitivity=None)
    units = next(action.choices for action in parser._actions if action.dest == "unit")
    assert set(arguments.MEASURES) == set(MEASURES)
    assert tuple(units) == UNITS
    assert set(command.LIES) == set(LIES)
    assert set(command.WAYS) <= set(splitting.CONSTRAINTS["how"].words)
