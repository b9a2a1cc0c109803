"""No public name of version 0.1 is lost: each imports from where it was, and takes the parameters it took.

``public_names_0_1.json`` lists the names in the ``__all__`` of every public module of that version, with the
parameters of those that can be called. Modules that have moved are found under their old name too, and warn.
"""

from __future__ import annotations

import importlib
import inspect
import json
import sys
import warnings
from enum import EnumType
from pathlib import Path

import pytest

from onefold._base.moved import MOVED
from onefold.exceptions import MissingDependencyError

LISTED: dict[str, dict[str, list[str] | None]] = json.loads(
    (Path(__file__).parent / "public_names_0_1.json").read_text(encoding="utf-8")
)


@pytest.mark.parametrize("module", LISTED)
def test_every_name_of_a_module_is_there_with_its_parameters(module: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            home = importlib.import_module(module)
        except MissingDependencyError as error:
            pytest.skip(str(error))
        for name, parameters in LISTED[module].items():
            found = getattr(home, name)  # an AttributeError here is a lost name
            # Parameters of an enumeration are those of Python's own class: Python 3.12 changed them.
            if parameters is not None and not isinstance(found, EnumType):
                now = list(inspect.signature(found).parameters)
                assert [each for each in now if each in parameters] == parameters, name


@pytest.mark.parametrize("module", MOVED)
def test_a_moved_module_says_where_it_is_now(module: str) -> None:
    sys.modules.pop(f"onefold.{module}", None)
    with pytest.warns(
        DeprecationWarning, match=rf"onefold\.{module} has moved to onefold\.{MOVED[module][0]}"
    ):
        importlib.import_module(f"onefold.{module}")


def test_an_unknown_module_is_still_an_import_error() -> None:
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("onefold.federated.no_such_module")
