"""onefold: learning from data that may not leave its owner, in one round and in closed form.

Names are imported when they are first used, so ``import onefold`` costs almost nothing and needs no extra.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

# The one table of what is found at top level: name -> the module it is, or lives in.
_HOMES = {
    "AutoencoderClassifier": "onefold.models",
    "DeepFuzzyAutoencoder": "onefold.models",
    "DeepFuzzyModel": "onefold.models",
    "DeepKAHM": "onefold.models",
    "DeepMembershipAutoencoder": "onefold.models",
    "FoldingClassifier": "onefold.models",
    "FoldingRegressor": "onefold.models",
    "KAHM": "onefold.models",
    "MembershipMapping": "onefold.models",
    "MomentClassifier": "onefold.fabrication",
    "MomentRegressor": "onefold.fabrication",
    "WideFuzzyAutoencoder": "onefold.models",
    "WideKAHM": "onefold.models",
    "WideMembershipAutoencoder": "onefold.models",
    "audit": "onefold.audit",
    "bounds": "onefold.bounds",
    "datasets": "onefold.datasets",
    "encoders": "onefold.encoders",
    "exceptions": "onefold.exceptions",
    "fabrication": "onefold.fabrication",
    "federated": "onefold.federated",
    "io": "onefold.io",
    "models": "onefold.models",
    "privacy": "onefold.privacy",
    "release": "onefold.release",
    "tables": "onefold.tables",
    "transfer": "onefold.transfer",
}

__all__ = sorted([*_HOMES, "__version__"])

if TYPE_CHECKING:  # the same table for type checkers and editors; a test compares the two
    from onefold import audit as audit
    from onefold import bounds as bounds
    from onefold import datasets as datasets
    from onefold import encoders as encoders
    from onefold import exceptions as exceptions
    from onefold import fabrication as fabrication
    from onefold import federated as federated
    from onefold import io as io
    from onefold import models as models
    from onefold import privacy as privacy
    from onefold import release as release
    from onefold import tables as tables
    from onefold import transfer as transfer
    from onefold.fabrication import MomentClassifier as MomentClassifier
    from onefold.fabrication import MomentRegressor as MomentRegressor
    from onefold.models import KAHM as KAHM
    from onefold.models import AutoencoderClassifier as AutoencoderClassifier
    from onefold.models import DeepFuzzyAutoencoder as DeepFuzzyAutoencoder
    from onefold.models import DeepFuzzyModel as DeepFuzzyModel
    from onefold.models import DeepKAHM as DeepKAHM
    from onefold.models import DeepMembershipAutoencoder as DeepMembershipAutoencoder
    from onefold.models import FoldingClassifier as FoldingClassifier
    from onefold.models import FoldingRegressor as FoldingRegressor
    from onefold.models import MembershipMapping as MembershipMapping
    from onefold.models import WideFuzzyAutoencoder as WideFuzzyAutoencoder
    from onefold.models import WideKAHM as WideKAHM
    from onefold.models import WideMembershipAutoencoder as WideMembershipAutoencoder
else:
    # Hidden from type checkers: to them a module-level __getattr__ makes every misspelt name valid.

    def __getattr__(name):
        """Import a public name at its first use (PEP 562)."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = import_module(_HOMES[name])
        if home.__name__ == f"{__name__}.{name}":
            return home
        value = getattr(home, name)
        globals()[name] = value  # the next lookup does not come here
        return value


def __dir__() -> list[str]:
    """List the lazy names too."""
    return sorted({*globals(), *__all__})
