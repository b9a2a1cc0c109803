"""Modules of version 0.1 that live elsewhere now: the old names still import, with a deprecation warning."""

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

__all__ = ["MOVED", "redirect_moved_modules"]

# Old module -> where its names are now, without the leading "onefold.".
MOVED: dict[str, tuple[str, ...]] = {
    "audit.canaries": ("audit.epsilon",),
    "audit.summary": ("audit.membership",),
    "fabrication.private_classifier": ("fabrication.fabricator",),
    "federated.aggregate": ("federated.rules",),
    "federated.combination": ("federated.server", "federated.trust"),
    "federated.consistency": ("federated.rules",),
    "federated.liars": ("federated.simulate",),
    "federated.probes": ("federated.trust",),
    "privacy.mechanisms.optimal": ("privacy.mechanisms.laplace",),
    "release.ranges": ("release.releases",),
    "release.table_release": ("release.tables",),
    "report.membership": ("report.html",),
    "report.rules": ("report.figures",),
    "report.tradeoff": ("report.figures",),
}


class _MovedModules:
    """An import hook that puts a stand-in where a module used to be; the stand-in asks the new home."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for moved modules only."""
        moved = name.startswith("onefold.") and name.removeprefix("onefold.") in MOVED
        return ModuleSpec(name, self) if moved else None  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Leave it to Python."""
        return None

    def exec_module(self, module: ModuleType) -> None:
        """Fill the stand-in."""
        old = module.__name__
        homes = [import_module(f"onefold.{home}") for home in MOVED[old.removeprefix("onefold.")]]
        names = " and ".join(home.__name__ for home in homes)
        warnings.warn(f"{old} has moved to {names}", DeprecationWarning, stacklevel=2)

        def find(attribute: str) -> Any:
            for home in homes:
                if hasattr(home, attribute):
                    return getattr(home, attribute)
            raise AttributeError(f"module {old!r} has no attribute {attribute!r}")

        module.__getattr__ = find  # type: ignore[method-assign]


def redirect_moved_modules() -> None:
    """Install the hook, once."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.append(_MovedModules())
