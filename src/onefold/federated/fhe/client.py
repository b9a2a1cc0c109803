"""The client: public key only. It encrypts its measures; it can decrypt nothing, not even its own message."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.exceptions import InvalidInputError
from onefold.federated.fhe._contexts import contexts_for, reading
from onefold.federated.fhe._encoding import MISSING, encode
from onefold.federated.fhe._layout import Slots
from onefold.federated.fhe._shares import layouts_of, message_primes
from onefold.federated.fhe._wire import pack_planes, read_ciphertext
from onefold.federated.fhe.messages import EncryptedAnswers, PublicKey, from_bytes
from onefold.federated.messages import check_name

__all__ = ["Client"]


class Client:
    """One owner of a model, who answers queries under a querier's public key.

    Parameters
    ----------
    public_key : PublicKey or bytes
        What the querier published. Make sure by other means (its ``key_id``) that it is the querier's:
        whoever made the key can read everything that is encrypted with it.
    name : str
        Under which the server counts this client, once per query.
    """

    def __init__(self, public_key: PublicKey | bytes, name: str) -> None:
        self.public_key = (
            public_key if isinstance(public_key, PublicKey) else from_bytes(PublicKey, public_key)
        )
        self.name = check_name("a client", name)
        self._contexts = contexts_for(self.public_key.parameters)
        room = self._contexts.full
        with reading("the public key"):
            key = room.context.from_public_str(self.public_key.key)
            self._encryptor = self._contexts.seal.Encryptor(room.context, key)

    def encrypt(self, values: Any, query_id: str) -> EncryptedAnswers:
        """The message to the server about rows (n, C) of quantised measures; -1 is a missing class."""
        setting = self.public_key
        numbers = check_quantised(values, setting.n_classes, 2**setting.bits)
        parts = []
        for layout, rows in layouts_of(setting.parameters, len(numbers)):
            encoded = encode(numbers[rows], layout, setting.parameters.digits)
            slots = [each for each in encoded[:-1] if each is not None] + list(encoded.marks)
            for each, n_primes in zip(slots, message_primes(setting.parameters, layout), strict=True):
                parts.append(self._encrypted(each, n_primes))
        return EncryptedAnswers(
            setting.n_clients,
            setting.n_classes,
            setting.bits,
            setting.key_id,
            query_id,
            self.name,
            len(numbers),
            b"".join(parts),
        )

    def _encrypted(self, slots: Slots, n_primes: int) -> bytes:
        """A fresh encryption with only as many primes as the server needs for it."""
        room = self._contexts.full
        fresh = self._encryptor.encrypt_zero(room.levels[n_primes])
        room.evaluator.add_plain_inplace(fresh, self._contexts.encoder.encode(slots.astype(np.uint64)))
        read = read_ciphertext(fresh.to_string())
        return pack_planes(read.polynomials, self._contexts.primes[:n_primes])


def whole_numbers(values: Any) -> NDArray[np.integer]:
    """An array of whole numbers, of any shape and size of number."""
    try:
        numbers = np.asarray(values)
    except ValueError:
        raise InvalidInputError("quantised measures must be a table: all rows of one length") from None
    if not np.issubdtype(numbers.dtype, np.integer):
        raise InvalidInputError("quantised measures must be whole numbers; see Quantiser")
    return numbers


def check_quantised(values: Any, n_classes: int, n_values: int) -> NDArray[np.int64]:
    """A table (n, C) of whole numbers in 0 ... n_values - 1, or -1."""
    numbers = whole_numbers(values)
    if numbers.ndim != 2 or numbers.shape[1] != n_classes or not len(numbers):
        raise InvalidInputError(
            f"quantised measures must be a table of at least one row and {n_classes} columns"
        )
    if numbers.min() < MISSING or numbers.max() >= n_values:
        raise InvalidInputError(
            f"quantised measures must lie in 0 ... {n_values - 1}, or be {MISSING} if missing"
        )
    return numbers.astype(np.int64)
