"""What every bound says about itself."""

from __future__ import annotations

from onefold import bounds


def test_every_bound_names_its_derivation() -> None:
    names = [name for name in bounds.__all__ if name.endswith("_bound")]
    assert len(names) > 10
    assert [name for name in names if "Derivation" not in getattr(bounds, name).__doc__] == []
