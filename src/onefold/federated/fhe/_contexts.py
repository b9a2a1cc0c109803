"""SEAL's contexts for one choice of parameters, and keys that fit them.

The rotations happen where few primes are left. Keys for them are made in a *low* context, which has only
those primes and the same secret: they are a tenth of the size they would have in the full context. A
ciphertext changes context by changing the name of its level.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from onefold._base.optional import require
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.fhe._circuit import PLAIN_MODULUS
from onefold.federated.fhe._parameters import Parameters

__all__ = ["Contexts", "Room", "contexts_for", "reading"]


class Room:
    """One SEAL context, its levels by the number of primes they have, and an evaluator."""

    def __init__(self, seal: Any, degree: int, primes: list[int], special: int) -> None:
        self.primes = primes
        settings = seal.EncryptionParameters(seal.scheme_type.bgv)
        settings.set_poly_modulus_degree(degree)
        settings.set_coeff_modulus([seal.Modulus(prime) for prime in (*primes, special)])
        settings.set_plain_modulus(PLAIN_MODULUS)
        self.context = seal.SEALContext(settings, True, seal.sec_level_type.tc128)
        if not self.context.parameters_set():  # SEAL refuses what falls short of 128 bits of security
            raise InvalidInputError(f"SEAL refuses the parameters: {self.context.parameter_error_name()}")
        self.evaluator = seal.Evaluator(self.context)
        self.levels: dict[int, list[int]] = {}
        data = self.context.first_context_data()
        for n_primes in range(len(primes), 0, -1):
            self.levels[n_primes] = data.parms_id()
            data = data.next_context_data() if n_primes > 1 else None


class Contexts:
    """The full context and the low one."""

    def __init__(self, parameters: Parameters) -> None:
        self.seal = seal = require("seal", "fhe")
        self.parameters = parameters
        sizes = [*parameters.prime_bits, parameters.special_bits]
        *primes, self.special = (
            modulus.value() for modulus in seal.CoeffModulus.Create(parameters.degree, sizes)
        )
        self.primes = primes
        self.full = Room(seal, parameters.degree, primes, self.special)
        self.low = Room(seal, parameters.degree, primes[: parameters.mark_primes], self.special)
        self.encoder = seal.BatchEncoder(self.full.context)

    def room(self, n_primes: int) -> Room:
        """Where a ciphertext with that many primes lives."""
        return self.low if n_primes <= self.parameters.mark_primes else self.full


@lru_cache(maxsize=4)
def contexts_for(parameters: Parameters) -> Contexts:
    """The contexts of some parameters, made once: there is nothing secret in them."""
    return Contexts(parameters)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """SEAL's refusal of bytes that are no such key, as one line."""
    try:
        yield
    except (RuntimeError, ValueError, IndexError, MemoryError):
        raise MessageError(f"{what} cannot be read by SEAL with these parameters") from None
