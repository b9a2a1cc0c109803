"""Estimators in files: the name of a class, its parameters, and what it learned, read by declared types.

Nothing is written for a class but ``_kept``, the types of the attributes that ``fit`` gives it, and
``_take_over``, where attributes that do not fit each other are refused. A file names classes; only
those in :data:`CLASSES` are ever made.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, NotRequired, Self, get_args, get_origin

import numpy as np
from pydantic import TypeAdapter, ValidationError
from pydantic_core import core_schema

from onefold._base.arrays import ARRAY_KEY, AnyArray, ArrayField, Arrays
from onefold._base.records import CONFIG, Record, checked, first_fault, unpack
from onefold._base.validation import check_parameters
from onefold.exceptions import FileFormatError, InvalidInputError

# What files may name: estimators, and plain classes with ``to_dict`` and ``from_dict``.
CLASSES: dict[str, Any] = {}


class NamedClass:
    """A field that holds an object of a registered class; the name stands for one of a room above."""

    def __init__(self, kind: type | str) -> None:
        self.kind = kind

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.with_info_plain_validator_function(self._checked)

    def _checked(self, value: Any, info: Any) -> Any:
        wanted = CLASSES[self.kind] if isinstance(self.kind, str) else self.kind
        made = _made(value, info.context, wanted) if info.mode == "json" else value
        if not isinstance(made, wanted):
            raise InvalidInputError("is of another class")
        return made


class Stored(Record):
    """Base of estimators that are kept in files."""

    kind: ClassVar[str] = "model"
    _left_out: ClassVar[tuple[str, ...]] = ()  # parameters that are not kept, or are with what was learned
    _has_parameters: ClassVar[bool] = True  # whether a file says any of them
    n_features_in_: int

    def _kept(self) -> dict[str, Any]:
        """Types of the attributes that are kept, by their names; NotRequired where there may be none."""
        return {
            "n_features_in_": int,
            "feature_names_in_": NotRequired[tuple[str, ...]],
            "guarantee_": NotRequired[Annotated[Any, NamedClass("Guarantee")]],
        }

    def _kept_values(self, compact: bool) -> dict[str, Any]:
        """The attributes that are kept; ``compact`` leaves out what can be computed again."""
        return {name: vars(self)[name] for name in self._kept() if name in vars(self)}

    def _take_over(self, values: dict[str, Any]) -> None:
        """Become fitted with attributes of the right types; those that do not fit each other are refused."""
        names = values.get("feature_names_in_")
        if names is not None:
            if len(names) != values["n_features_in_"]:
                raise InvalidInputError("its columns do not have one name each")
            values = {**values, "feature_names_in_": np.array(names, dtype=object)}
        vars(self).update(values)

    def _kept_parts(self, compact: bool) -> dict[str, Any]:
        """Class, parameters and learned attributes: what a file holds."""
        fitted = {name: _tagged(value) for name, value in self._kept_values(compact).items()}
        return {**_description(self), "fitted": fitted}

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return NamedClass(cls).__get_pydantic_core_schema__(source, handler)

    # --- files ----------------------------------------------------------------------------------------------

    def _content(self) -> "Contents":
        return Contents.of(self)

    @classmethod
    def _made_of(cls, text: str, arrays: Arrays) -> Self:
        found = _contents(text, arrays, cls.kind)
        model = found.model
        if found.extras and not cls._has_parameters:
            raise FileFormatError("damaged: it has arrays that belong to nothing")
        if not isinstance(model, cls):
            raise FileFormatError(f"it holds a {type(model).__name__}, not a {cls.__name__}")
        return model


@dataclass(frozen=True)
class Contents:
    """What a file of an estimator holds: the estimator, and arrays that are no part of it."""

    model: Stored
    extras: dict[str, Annotated[AnyArray, ArrayField("fiubU", finite=False)]]

    @classmethod
    def of(cls, model: Stored, extras: Mapping[str, AnyArray] | None = None) -> "Contents":
        """What is kept of an estimator, which must be fitted."""
        required = [name for name, kind in model._kept().items() if get_origin(kind) is not NotRequired]
        if not all(hasattr(model, name) for name in required):
            raise InvalidInputError("only a fitted model can be saved: call fit first")
        return cls(model, dict(extras or {}))


def contents_of(content: bytes, kind: str, version: int = 1, largest_machine: int | None = None) -> Contents:
    """Read the bytes of a file of this kind."""

    def check(fields: Any, arrays: Arrays) -> None:
        if largest_machine is not None and max(_sizes(fields, arrays), default=0) > largest_machine:
            raise FileFormatError(f"it has a machine of more than {largest_machine} samples")

    return _contents(*unpack(content, kind, version, check=check), kind)


def _contents(text: str, arrays: Arrays, kind: str) -> Contents:
    result: Contents
    (result,) = checked(_reader(Contents), f"[{text}]", arrays, kind)
    if result.model.kind != kind:
        raise FileFormatError(f"damaged: it does not hold a {kind}")
    return result


def _sizes(plain: Any, arrays: Arrays) -> Iterator[int]:
    """How many samples the machines of a file hold."""
    if isinstance(plain, dict) and isinstance(plain.get("centred"), dict):
        array = arrays.get(str(plain["centred"].get(ARRAY_KEY)))
        yield array.shape[1] if array is not None and array.ndim == 3 else 0
    for inner in plain.values() if isinstance(plain, dict) else plain if isinstance(plain, list) else ():
        yield from _sizes(inner, arrays)


# --- out --------------------------------------------------------------------------------------------------


def _description(value: Stored) -> dict[str, Any]:
    """Class name and parameters, nested estimators included."""
    name = type(value).__name__
    if CLASSES.get(name) is not type(value):  # it could not be read again
        raise InvalidInputError(f"cannot save a {name}: not one of {', '.join(sorted(CLASSES))}")
    given = value.get_params(deep=False).items() if hasattr(value, "get_params") else ()
    kept = {key: _parameter(inner) for key, inner in given if key not in value._left_out}
    return {"class": name, "parameters": kept}


def _parameter(value: Any) -> Any:
    if isinstance(value, Stored):
        return _description(value)
    tagged = _tagged(value)
    # Of a generator nothing is of use.
    return tagged if isinstance(tagged, str | int | float | list | tuple | dict | np.generic) else None


def _tagged(value: Any) -> Any:
    """An object of a registered plain class as its name and its values."""
    name = type(value).__name__
    if isinstance(value, Stored) or CLASSES.get(name) is not type(value):
        return value
    return {"class": name, "parameters": value.to_dict()}


# --- and back ---------------------------------------------------------------------------------------------


@cache
def _reader(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(tuple[kind], config=CONFIG)


def _made(value: Any, context: Any, wanted: type = object) -> Any:
    """The object that a file describes, checked; nothing of another class than the wanted one is made."""
    name, given = (value.get(key) for key in ("class", "parameters")) if isinstance(value, dict) else ("", "")
    if (
        not isinstance(name, str)
        or not isinstance(given, dict)
        or value.keys() - {"class", "parameters", "fitted"}
    ):
        raise InvalidInputError("must be an object of a class")
    kind = CLASSES.get(name)
    if kind is None:
        raise InvalidInputError("it holds a kind of model this version does not know")
    if not issubclass(kind, wanted) or (wanted is Stored and getattr(kind, "kind", "") != context.kind):
        raise InvalidInputError("is of another class")  # before it takes time and memory to make it
    if not issubclass(kind, Stored):
        return kind.from_dict(given)
    if given and not kind._has_parameters:
        raise InvalidInputError("has parameters, which are not kept")
    parameters = {
        key: _made(inner, context) if isinstance(inner, dict) else inner for key, inner in given.items()
    }
    model = kind(**parameters) if hasattr(kind, "get_params") else object.__new__(kind)
    check_parameters(model)
    if "fitted" in value:
        model._take_over(_values(model._kept(), value["fitted"], context))
    return model


def _values(types: dict[str, Any], given: Any, context: Any) -> dict[str, Any]:
    """Attributes of the declared types."""
    if not isinstance(given, dict) or given.keys() - types.keys():
        raise InvalidInputError("has attributes of another class")
    values = {}
    for name, kind in types.items():
        optional = get_origin(kind) is NotRequired
        if name in given:
            reader = _reader(get_args(kind)[0] if optional else kind)
            try:
                (values[name],) = reader.validate_json(json.dumps([given[name]]), context=context)
            except ValidationError as error:
                raise InvalidInputError(f"{name}: {first_fault(error)}") from None
        elif not optional:
            raise InvalidInputError(f"{name} is missing")
    return values
