"""Options that several commands share: their help lines, and values that no command could use."""

import argparse

import numpy as np
import pytest

from onefold.cli import arguments
from onefold.exceptions import InvalidInputError
from onefold.tables import Schema


def test_option_takes_spellings_value_names_and_default_from_one_line() -> None:
    parser = argparse.ArgumentParser()
    arguments.option(parser, "--sites --parties N", "number of sites", arguments.whole, 5)
    arguments.option(parser, "--range LOW HIGH", "smallest and largest value", float)
    arguments.option(parser, "--delta D", "delta of the guarantee", arguments.fraction, 1e-5)
    arguments.repeated(parser, "--ignore COL", "column to leave out")
    arguments.flag(parser, "--json", "print JSON")
    args = parser.parse_args(["--parties", "3", "--range", "0", "1", "--ignore", "a", "--ignore", "b"])
    assert vars(args) == {"sites": 3, "range": [0.0, 1.0], "delta": 1e-5, "ignore": ["a", "b"], "json": False}
    shown = " ".join(parser.format_help().split())
    for line in (
        "--parties N number of sites (default: 5)",
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
    from onefold.cli.federate import simulate as command
    from onefold.datasets import WAYS
    from onefold.federated.simulate import LIES, METHODS
    from onefold.models import MEASURES
    from onefold.privacy.terms import UNITS

    parser = argparse.ArgumentParser()
    arguments.add_noise_options(parser, required=False)
    units = next(action.choices for action in parser._actions if action.dest == "unit")
    assert set(arguments.MEASURES) == set(MEASURES)
    assert tuple(units) == UNITS
    assert set(command.LIES) == set(LIES)
    assert command.METHODS == METHODS
    # Rows can be spread by the number to predict, too, which is no way to spread classes.
    assert set(command.WAYS) - {"sorted"} <= set(WAYS.words)


def noise_options(*given: str) -> arguments.NoiseOptions:
    parser = argparse.ArgumentParser()
    arguments.add_noise_options(parser, required=False)
    arguments.add_person_options(parser)
    return arguments.NoiseOptions.of(parser.parse_args(list(given)))


@pytest.mark.parametrize(
    "given, told",
    [
        ("--epsilon 1", "--range LOW HIGH .* --sensitivity S"),
        ("--epsilon 1 --unit record", "--range"),
        ("--epsilon 1 --unit record --sensitivity 1", "--unit record needs --range"),
        ("--epsilon 1 --unit person --sensitivity 1", "--unit person needs --range"),
        ("--epsilon 1 --unit person --range 0 1", "--unit person needs --person COL and --rows-per-person K"),
        ("--epsilon 1 --range 0 1 --person who", "--person COL and --rows-per-person K go together"),
        ("--epsilon 1 --range 0 1 --rows-per-person 3", "--person COL and --rows-per-person K go together"),
        ("--epsilon 1 --range 0 1 --label-epsilon 1", "--label-epsilon needs --classes"),
        ("--epsilon 1 --range 0 1 --classes 1 1.0", "--classes needs two labels"),
        ("--epsilon 1 --range 0 1 --classes 1.5 2", "--classes holds fractions"),
    ],
)
def test_noise_without_domain_or_with_half_of_an_option_is_refused(given: str, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told) as refused:
        noise_options(*given.split()).check()
    assert "\n" not in str(refused.value)


def test_noise_is_hardened_unless_the_float_sampler_is_named() -> None:
    common = ["--epsilon", "1", "--range", "0", "1"]
    assert noise_options(*common).mechanism(3).guarantee(3).holds
    promise = noise_options(*common, "--sampler", "float").mechanism(3).guarantee(3)
    assert not promise.holds
    words = arguments.promise_in_words(promise)
    assert words[0].startswith("VOID")
    assert words[1:] == [promise.odds("entry"), promise.odds("record")]


@pytest.mark.parametrize("unit", ["entry", "record", "person"])
def test_person_is_promised_something_under_every_unit(unit: str) -> None:
    given = f"--epsilon 1 --range 0 1 --noise laplace --unit {unit} --person who --rows-per-person 3"
    noise = noise_options(*given.split())
    noise.check()
    promise = noise.mechanism(2).guarantee(2)
    assert promise.person[0] == pytest.approx({"entry": 6.0, "record": 3.0, "person": 1.0}[unit], rel=1e-5)
    with pytest.raises(InvalidInputError, match="the same column"):
        noise.rows_of("t.csv", Schema.of(None), "who", [], quiet=True, mode="private")


def test_declared_classes_alone_decide_types_and_widths_of_labels() -> None:
    numbers, texts = np.array([3, 1]), np.array(["b", "1"])
    assert arguments.declared_classes(["3", "1", "10"]).tolist() == [1, 3, 10]
    assert arguments.declared_labels(numbers, ["1", "3"]).dtype == np.int64
    wide = arguments.declared_labels(texts, ["1", "b", "very long"])
    narrow = arguments.declared_labels(np.array([1, 1]), ["1", "b", "very long"])
    assert wide.dtype == narrow.dtype == np.dtype("<U9")
    assert narrow.tolist() == ["1", "1"]
    for undeclared in (texts, np.array([1, 4])):
        with pytest.raises(InvalidInputError, match="a label that --classes does not name"):
            arguments.declared_labels(undeclared, ["1", "3"])
