"""Objects that nobody changes once they are made, so that what they promised stays what they do."""

import copyreg
import inspect
from abc import ABCMeta
from collections.abc import Mapping
from typing import Any

import numpy as np

from onefold._base.arrays import AnyArray

__all__ = ["Frozen", "constant"]


def constant(array: AnyArray) -> AnyArray:
    """Return a copy of an array that cannot be written to, whatever its flags are set to."""
    if array.dtype.hasobject or array.size == 0:  # objects have no bytes of their own
        array = array.copy()
        array.flags.writeable = False
        return array
    return np.frombuffer(array.tobytes(), dtype=array.dtype).reshape(array.shape)


class _Sealing(ABCMeta):
    """Seals an object when its constructor, and those of all its classes, are done."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__call__(*args, **kwargs)
        made._seal()
        return made

    @property
    def __signature__(cls) -> inspect.Signature:  # or help() would show the one above
        if cls.__init__ is object.__init__:  # type: ignore[misc]
            return inspect.Signature()
        signature = inspect.signature(cls.__init__)  # type: ignore[misc]
        return signature.replace(parameters=list(signature.parameters.values())[1:])


class Frozen(metaclass=_Sealing):
    """Base class of noises and domains: a parameter changed after use would make a guarantee false.

    Copies are the object itself. Arrays are read-only, also for those who set their flag again: their memory
    is a constant. Python keeps nobody from reaching into ``__dict__``; this is a guard against mistakes.

    See Also
    --------
    onefold.privacy.Mechanism : A noise, which is frozen.

    Examples
    --------
    >>> from onefold.privacy import Laplace
    >>> Laplace(1.0, sensitivity=1.0).epsilon = 0.01
    Traceback (most recent call last):
    AttributeError: Laplace cannot be changed: make a new one with another epsilon
    """

    def _seal(self) -> None:
        for name, value in list(self.__dict__.items()):
            if isinstance(value, np.ndarray):
                self.__dict__[name] = constant(value)
        self.__dict__["_sealed"] = True

    def __setattr__(self, name: str, value: object) -> None:
        if "_sealed" in self.__dict__:
            raise AttributeError(
                f"{type(self).__name__} cannot be changed: make a new one with another {name}"
            )
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} cannot be changed: make a new one")

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Mapping[int, Any]) -> Any:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return copyreg.__newobj__, (type(self),), dict(self.__dict__)  # type: ignore[attr-defined]

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        if "_sealed" in self.__dict__:
            raise AttributeError(f"{type(self).__name__} cannot be changed: make a new one")
        self.__dict__.update(state)
        self._seal()
