"""The site's role in an encrypted query: it has the public key only."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.arrays import Integers
from onefold._base.seal_bytes import read_ciphertext
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe._layout import MISSING, Slots, encode
from onefold.federated.fhe._seal import contexts_for, reading
from onefold.federated.fhe._wire import pack_planes
from onefold.federated.fhe.messages import EncryptedAnswers, PublicKey, as_message
from onefold.federated.messages import check_name

__all__ = ["Client"]


class Client:
    """A site that answers queries under a querier's public key.

    A site can decrypt nothing, not even its own message.

    Parameters
    ----------
    public_key : PublicKey or bytes
        What the querier published. Make sure by other means (its ``key_id``) that it is the querier's:
        whoever made the key can read everything that is encrypted with it.
    name : str
        Name under which the server counts this site, once per query.

    See Also
    --------
    Querier : Makes the key and decrypts the result.
    Server : Computes on what sites encrypt.
    Quantiser : Turns measures into whole numbers.

    References
    ----------
    Document 004, eq. 106.

    Examples
    --------
    >>> from onefold.federated.fhe import Client, Querier
    >>> querier = Querier(n_clients=2, n_classes=3)
    >>> answers = Client(querier.public_key(), "north").encrypt([[3, 1, 2]], "q1")
    >>> answers.client, answers.n_rows
    ('north', 1)
    """

    def __init__(self, public_key: PublicKey | bytes, name: str) -> None:
        self.public_key = as_message(PublicKey, public_key)
        self.name = check_name("a site's name", name)
        self._contexts = contexts_for(self.public_key.parameters)
        context = self._contexts.full.context
        with reading("the public key"):
            self._encryptor = self._contexts.seal.Encryptor(
                context, context.from_public_str(self.public_key.key)
            )

    def encrypt(self, values: ArrayLike, query_id: str) -> EncryptedAnswers:
        """Encrypt the answers to one query.

        Parameters
        ----------
        values : array-like of int, shape (n, C)
            Quantised measures in 0 ... 2^bits - 1; -1 for a class that this site does not have.
        query_id : str
            Name of the query.

        Returns
        -------
        EncryptedAnswers
            The message to the server.

        Raises
        ------
        InvalidInputError
            If the values are not whole numbers in range, or have the wrong shape.
        """
        key = self.public_key
        parameters = key.parameters
        numbers = check_quantised(values, key.n_classes, 2**key.bits)
        parts = []
        for layout, rows in parameters.layouts(len(numbers)):
            slots = encode(numbers[rows], layout, parameters.digits).ciphertexts()
            for each, n_primes in zip(slots, parameters.message_primes(layout), strict=True):
                parts.append(self._encrypted(each, n_primes))
        return EncryptedAnswers(*key.setting, query_id, self.name, len(numbers), b"".join(parts))

    def _encrypted(self, slots: Slots, n_primes: int) -> bytes:
        """Return a fresh encryption with only as many primes as the server needs for it."""
        chain = self._contexts.full
        fresh = self._encryptor.encrypt_zero(chain.levels[n_primes])
        chain.evaluator.add_plain_inplace(fresh, self._contexts.encoder.encode(slots.astype(np.uint64)))
        return pack_planes(read_ciphertext(fresh.to_string()), self._contexts.primes[:n_primes])


def whole_numbers(values: Any) -> NDArray[np.integer]:
    """Return an array of whole numbers, of any shape and size of number."""
    try:
        numbers = np.asarray(values)
    except ValueError:
        raise InvalidInputError("quantised measures must be a table: all rows of one length") from None
    if not np.issubdtype(numbers.dtype, np.integer):
        raise InvalidInputError("quantised measures must be whole numbers: use Quantiser.quantise")
    return numbers


def check_quantised(values: Any, n_classes: int, n_values: int) -> Integers:
    """Return a table (n, C) of whole numbers in 0 ... n_values - 1, or -1 where a class is missing."""
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
