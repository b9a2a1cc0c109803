"""What every bound says about itself."""

from __future__ import annotations

import pytest

from onefold import bounds


@pytest.mark.parametrize("name", [name for name in bounds.__all__ if name.endswith("_bound")])
def test_every_bound_names_its_derivation(name: str) -> None:
    assert "Derivation" in getattr(bounds, name).__doc__
