"""How rows are shared out over ciphertexts, and with how many primes each ciphertext of a message is sent."""

from __future__ import annotations

from onefold.federated.fhe._layout import Layout, layouts
from onefold.federated.fhe._parameters import Parameters
from onefold.federated.fhe._wire import packed_bytes

__all__ = ["layouts_of", "message_primes", "message_size"]


def layouts_of(parameters: Parameters, n_rows: int) -> list[tuple[Layout, slice]]:
    """The layouts of a query of so many rows, each with the rows it holds."""
    return layouts(parameters.n_values, parameters.n_columns, parameters.row, n_rows)


def message_primes(parameters: Parameters, layout: Layout) -> list[int]:
    """Primes of the ciphertexts that a client sends for one layout, in their order."""
    digits = [] if parameters.digits == 1 else [parameters.hot_primes, parameters.hot_primes - 1]
    return [len(parameters.prime_bits), *digits, *[parameters.mark_primes] * layout.planes]


def message_size(parameters: Parameters, n_rows: int) -> int:
    """Bytes of the ciphertexts that a client sends about so many rows."""
    sizes = parameters.prime_bits
    return sum(
        packed_bytes(sizes[:n_primes], parameters.degree)
        for layout, _ in layouts_of(parameters, n_rows)
        for n_primes in message_primes(parameters, layout)
    )
