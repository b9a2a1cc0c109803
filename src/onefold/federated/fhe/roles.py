"""The site's and the querier's role in an encrypted query: one has the public key only, one can decrypt."""

from __future__ import annotations

import math
import os
from dataclasses import field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from onefold._base.arrays import Integers, Mask
from onefold._base.records import record
from onefold.exceptions import DecryptionError, FileFormatError, InvalidInputError, MessageError
from onefold.federated.fhe.circuit import MISSING, PLAIN_MODULUS, Slots, attained, encode
from onefold.federated.fhe.messages import (
    EncryptedAnswers,
    EncryptedResult,
    EvaluationKeys,
    PublicKey,
)
from onefold.federated.fhe.parameters import choose, ciphertext_size
from onefold.federated.fhe.seal import (
    Chain,
    PlaneSums,
    ciphertext_bytes,
    contexts_for,
    pack_planes,
    read_ciphertext,
    reading,
    secret_rows,
)
from onefold.federated.fhe.server import FACTOR_BYTES, Server, Tally
from onefold.federated.messages import Filled, check_name, digest_of

__all__ = ["LEAST_BUDGET", "Client", "Querier"]

LEAST_BUDGET = 1  # bits that must be left: a result without any is refused, since it could be anything
MOST_TRIAL_SITES = {1: 64, 2: 4}  # by the number of digits: sites are what takes the time


@record
class SecretKey(PublicKey, kind="secret key"):
    """What a querier keeps: its public and its secret key, as SEAL writes them."""

    error = InvalidInputError
    owner_only = True

    secret: Filled = field(repr=False)


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
    MeasureMap : Turns measures into whole numbers.

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
        self.public_key = PublicKey.of(public_key)
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
        raise InvalidInputError("quantised measures must be whole numbers: use MeasureMap.numbers")
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


class Querier:
    """Who asks: keeps the secret key, gives the others their keys, and reads results.

    Parameters
    ----------
    n_clients : int
        Largest number of sites that may answer, at most 200.
    n_classes : int
        Number of classes, at most 100 and less than 2^bits.
    bits : {4, 5, 6, 8, 10, 12, 16}, default=8
        Bits of a quantised measure.

    Attributes
    ----------
    key_id : str
        SHA-256 sum of the public key; sites compare it with what you tell them by another way.
    parameters : Parameters
        Ring and primes, which follow from the three numbers.

    See Also
    --------
    Client : Encrypts the answers of a site.
    Server : Computes the result.
    EncryptedArgmin : All three roles in one process.

    References
    ----------
    Document 004, eq. 106.

    Examples
    --------
    >>> from onefold.federated.fhe import Client, Querier, Server
    >>> querier = Querier(n_clients=2, n_classes=3)
    >>> server = Server(querier.evaluation_keys())
    >>> site = Client(querier.public_key(), "north")
    >>> querier.decrypt(server.aggregate([site.encrypt([[9, 5, 7]], "q1")]))
    array([[False,  True, False]])
    """

    def __init__(self, n_clients: int, n_classes: int, bits: int = 8) -> None:
        self.parameters = choose(n_clients, n_classes, bits)
        contexts = contexts_for(self.parameters)
        generator = contexts.seal.KeyGenerator(contexts.full.context)
        self._open(generator.secret_key().to_string(), generator.create_public_key().to_string())

    def _open(self, secret: bytes, public: bytes) -> None:
        self._contexts = contexts = contexts_for(self.parameters)
        self._secret, self._public, self.key_id = secret, public, digest_of(public)
        with reading("the secret key"):
            self._secrets = [self._secret_of(chain) for chain in contexts.chains]
        self._decryptor = contexts.seal.Decryptor(contexts.low.context, self._secrets[-1])

    def _secret_of(self, chain: Chain) -> Any:
        """Return the secret key with the primes of one chain."""
        rows = [*range(len(chain.primes)), len(self._contexts.primes)]
        level = chain.context.key_context_data().parms_id()
        return chain.context.from_secret_str(secret_rows(self._secret, rows, level, self.parameters.degree))

    @property
    def _setting(self) -> tuple[int, int, int, str]:
        return self.parameters.n_clients, self.parameters.n_classes, self.parameters.bits, self.key_id

    def public_key(self) -> PublicKey:
        """Return the key that sites encrypt with.

        Returns
        -------
        PublicKey
            It holds no secret.
        """
        return PublicKey(*self._setting, self._public)

    def evaluation_keys(self, check: bool = True) -> EvaluationKeys:
        """Make the keys that the server computes with.

        Parameters
        ----------
        check : bool, default=True
            Whether to try the keys on a made-up query first. Too much noise gives wrong answers without any
            sign in the ciphertexts, so the trial compares the answer and measures the noise.

        Returns
        -------
        EvaluationKeys
            They hold no secret; new ones at every call.

        Raises
        ------
        DecryptionError
            If the trial gives a wrong answer, or more noise than the parameters allow for.
        """
        seal, sections = self._contexts.seal, []
        chains = zip(self._contexts.chains, self._secrets, self.parameters.rotations, strict=True)
        for chain, secret, steps in chains:
            generator = seal.KeyGenerator(chain.context, secret)
            rotations = seal.GaloisKeys()
            if steps:
                generator.create_galois_keys(list(steps), rotations)
            relinearise = generator.create_relin_keys().to_string()
            sections.append((relinearise, rotations.to_string() if steps else b""))
        keys = EvaluationKeys(*self._setting, self._public, tuple(sections))
        if check:
            self._try(keys)
        return keys

    def _try(self, keys: EvaluationKeys) -> None:
        """Refuse keys that answer wrongly, or whose noise is above the bound that everything rests on."""
        tally, expected = self._trial(keys)
        bare = tally.bare(0)  # before flooding, which hides the noise
        modulus_bits = math.log2(math.prod(self._contexts.primes[: bare.n_primes])) - 1
        noise = modulus_bits - self._decryptor.invariant_noise_budget(bare.inner)
        within = noise <= self.parameters.noise_bits
        if not within or not np.array_equal(self.decrypt(tally.message([tally.finish(0, bare)])), expected):
            raise DecryptionError(
                "the keys are refused: a trial query gives a wrong answer or more noise than the parameters "
                "allow for"
            )

    def _trial(self, keys: EvaluationKeys) -> tuple[Tally, Mask]:
        """Return the tally of a made-up query of one row, and its answer."""
        n_clients = min(keys.n_clients, MOST_TRIAL_SITES[self.parameters.digits])
        n_classes = keys.n_classes
        values = 1 + np.arange(n_clients * n_classes).reshape(n_clients, 1, -1) * 37 % (2**keys.bits - 1)
        values[-1, 0, :: max(1, n_classes // 3)] = 0  # the classes that are to win, with ties
        tally, public = Server(keys).tally("trial", 1), self.public_key()
        for index, each in enumerate(values):
            tally.add(Client(public, f"trial-{index}").encrypt(each, "trial"))
        return tally, np.asarray(values.min(axis=0) == 0)

    def decrypt(self, result: EncryptedResult | bytes) -> Mask:
        """Decrypt a result, and refuse one that cannot be trusted.

        Do not let the server know whether a result was refused: it could choose what to send so that the
        refusals tell it about the secret key.

        Parameters
        ----------
        result : EncryptedResult or bytes
            What the server sent.

        Returns
        -------
        ndarray of bool, shape (n, C)
            The classes that attain the minimum of each row.

        Raises
        ------
        MessageError
            If the message is damaged, or of another key or setting.
        DecryptionError
            If no noise budget is left, or the number of sites in the result is not what the server says.
        """
        message = EncryptedResult.of(result)
        if message.setting != self._setting:
            raise MessageError("the result was computed for another key or another setting")
        layouts = self.parameters.layouts(message.n_rows)
        size = FACTOR_BYTES + ciphertext_size(self.parameters.prime_bits[:1], self.parameters.degree)
        if len(message.content) != size * len(layouts):
            raise MessageError("the size of the result does not fit its number of rows")
        found = []
        for index, (layout, rows) in enumerate(layouts):
            slots = self._slots(memoryview(message.content)[index * size : (index + 1) * size])
            wins, checks = attained(slots, layout, rows.stop - rows.start)
            if np.any(checks != message.n_answered):
                raise DecryptionError("the check of the result fails: it does not count the sites it names")
            found.append(wins)
        return np.concatenate(found)

    def _slots(self, data: memoryview) -> Slots:
        factor = int.from_bytes(data[:FACTOR_BYTES], "little")
        if not 0 < factor < PLAIN_MODULUS:
            raise MessageError("the result is malformed")
        chain = self._contexts.low
        planes = PlaneSums(self._contexts.primes[:1], self.parameters.degree).add(data[FACTOR_BYTES:])
        cipher = self._contexts.seal.Ciphertext()
        cipher.load_bytes(chain.context, ciphertext_bytes(chain.levels[1], planes.total()))
        if self._decryptor.invariant_noise_budget(cipher) < LEAST_BUDGET:
            raise DecryptionError(
                "the result cannot be read: its noise is exhausted, or it is of another key"
            )
        plain = self._contexts.encoder.decode_uint64(self._decryptor.decrypt(cipher))
        return np.asarray(plain.astype(np.int64) * factor % PLAIN_MODULUS)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the secret key to a file that only the user's account may read.

        Parameters
        ----------
        path : str or path
            The file; it is written whole or not at all.
        """
        SecretKey(*self._setting, self._public, self._secret).save(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Querier:
        """Read the secret key that :meth:`save` wrote.

        Parameters
        ----------
        path : str or path
            The file.

        Returns
        -------
        Querier
            A querier with the same keys.

        Raises
        ------
        FileFormatError
            If the file is damaged, or holds no secret key of this version.
        InvalidInputError
            If there is no such file, or others can read it.
        """
        kept = SecretKey.load(path)
        querier = cls.__new__(cls)
        querier.parameters = kept.parameters
        try:
            querier._open(kept.secret, kept.key)
        except (MessageError, LookupError, TypeError, ValueError):
            raise FileFormatError(f"{path}: holds no secret key of this version, or is damaged") from None
        return querier
