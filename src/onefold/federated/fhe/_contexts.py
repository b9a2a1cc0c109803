"""SEAL's contexts for one choice of parameters.

Rotations happen where few primes are left. Keys for them are made in *lower rooms*: contexts that have only
those primes, and the same secret. They are a tenth of the size they would have in the full context. A
ciphertext changes rooms by changing the name of its level.
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
    """One room for each of ``parameters.rooms``, from the full one down."""

    def __init__(self, parameters: Parameters) -> None:
        self.seal = seal = require("seal", "fhe")
        self.parameters = parameters
        sizes = [*parameters.prime_bits, parameters.special_bits]
        moduli = seal.CoeffModulus.Create(parameters.degree, sizes)
        *self.primes, self.special = (modulus.value() for modulus in moduli)
        self.rooms = [Room(seal, parameters.degree, self.primes[:n], self.special) for n in parameters.rooms]
        self.encoder = seal.BatchEncoder(self.full.context)

    @property
    def full(self) -> Room:
        """The room with all primes, where clients encrypt."""
        return self.rooms[0]

    @property
    def low(self) -> Room:
        """The room with the fewest, where results are decrypted."""
        return self.rooms[-1]

    def room_number(self, n_primes: int) -> int:
        """The lowest room that holds a ciphertext with that many primes."""
        return max(i for i, room in enumerate(self.rooms) if len(room.primes) >= n_primes)

    def room(self, n_primes: int) -> Room:
        """Where a ciphertext with that many primes lives."""
        return self.rooms[self.room_number(n_primes)]


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
