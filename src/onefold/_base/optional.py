"""Optional dependencies: imported where they are used, with a message that says how to get them."""

from importlib import import_module
from types import ModuleType

from onefold.exceptions import MissingDependencyError


def require(module: str, extra: str) -> ModuleType:
    """Import ``module``, or say which extra of onefold brings it."""
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        message = f"{package} is needed here: pip install 'onefold[{extra}]'"
        raise MissingDependencyError(message) from None
