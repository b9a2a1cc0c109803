"""The ``onefold`` command: ``app`` wires, one module per command."""

__all__: list[str] = []
