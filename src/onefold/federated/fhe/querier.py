"""The querier: makes the keys, and is the only one who can decrypt."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.files import atomic_write
from onefold._base.frames import pack_frame, unpack_frame
from onefold.exceptions import DecryptionError, FileFormatError, InvalidInputError, MessageError
from onefold.federated.fhe._circuit import PLAIN_MODULUS
from onefold.federated.fhe._contexts import Room, contexts_for, reading
from onefold.federated.fhe._encoding import attained
from onefold.federated.fhe._parameters import choose
from onefold.federated.fhe._selfcheck import trial
from onefold.federated.fhe._shares import layouts_of
from onefold.federated.fhe._wire import PlaneSums, ciphertext_bytes, packed_size, secret_rows
from onefold.federated.fhe.messages import (
    VERSION,
    EncryptedResult,
    EvaluationKeys,
    PublicKey,
    from_bytes,
    key_digest,
)
from onefold.federated.fhe.server import FACTOR_BYTES

__all__ = ["LEAST_BUDGET", "Querier"]

LEAST_BUDGET = 1  # bits that must be left: a result without any is refused, since it could be anything
MAX_FILE_BYTES = 2**28


class Querier:
    """Who asks: keeps the secret key, gives the others theirs, and reads results.

    Parameters
    ----------
    n_clients, n_classes, bits : int
        The setting: at most so many clients, this number of classes, measures of so many bits.
    """

    def __init__(self, n_clients: int, n_classes: int, bits: int = 8) -> None:
        self.parameters = choose(n_clients, n_classes, bits)
        contexts = contexts_for(self.parameters)
        generator = contexts.seal.KeyGenerator(contexts.full.context)
        self._open(generator.secret_key().to_string(), generator.create_public_key().to_string())

    def _open(self, secret: bytes, public: bytes) -> None:
        self._contexts = contexts = contexts_for(self.parameters)
        self._secret, self._public, self.key_id = secret, public, key_digest(public)
        with reading("the secret key"):
            self._secrets = [self._secret_of(room) for room in contexts.rooms]
        self._decryptor = contexts.seal.Decryptor(contexts.low.context, self._secrets[-1])

    def _secret_of(self, room: Room) -> Any:
        """The secret key with the primes of one room."""
        rows = [*range(len(room.primes)), len(self._contexts.primes)]
        level = room.context.key_context_data().parms_id()
        return room.context.from_secret_str(secret_rows(self._secret, rows, level, self.parameters.degree))

    @property
    def _setting(self) -> tuple[int, int, int, str]:
        return self.parameters.n_clients, self.parameters.n_classes, self.parameters.bits, self.key_id

    def public_key(self) -> PublicKey:
        """What clients encrypt with."""
        return PublicKey(*self._setting, self._public)

    def evaluation_keys(self, check: bool = True) -> EvaluationKeys:
        """What the server computes with; tried out before they are handed out, unless ``check`` is False."""
        keys = self._new_evaluation_keys()
        if check:
            self._try(keys)
        return keys

    def _try(self, keys: EvaluationKeys) -> None:
        """Refuse keys that answer wrongly, or whose noise is above the bound that everything rests on."""
        tally, expected = trial(self.public_key(), keys)
        bare = tally.bare(0)
        room = math.log2(math.prod(self._contexts.primes[: bare.n_primes])) - 1
        noise = room - self._decryptor.invariant_noise_budget(bare.inner)
        within = noise <= self.parameters.noise_bits
        if not within or not np.array_equal(self.decrypt(tally.message([tally.finish(0, bare)])), expected):
            raise DecryptionError("the keys are refused: a trial query has more noise than they allow for")

    def _new_evaluation_keys(self) -> EvaluationKeys:
        seal, parts = self._contexts.seal, []
        for room, secret, steps in zip(
            self._contexts.rooms, self._secrets, self.parameters.rotations, strict=True
        ):
            generator = seal.KeyGenerator(room.context, secret)
            parts.append(generator.create_relin_keys().to_string())
            rotations = seal.GaloisKeys()
            if steps:
                generator.create_galois_keys(list(steps), rotations)
            parts.append(rotations.to_string() if steps else b"")
        return EvaluationKeys(*self._setting, self._public, tuple(map(len, parts)), b"".join(parts))

    def decrypt(self, result: EncryptedResult | bytes) -> NDArray[np.bool_]:
        """The classes that attain the minimum, (n, C). A result that cannot be trusted is refused.

        Do not let the server know whether a result was refused: its choice of what to send would then turn
        the refusals into knowledge about the secret key.
        """
        message = result if isinstance(result, EncryptedResult) else from_bytes(EncryptedResult, result)
        if message.key_id != self.key_id or message.parameters != self.parameters:
            raise MessageError("the result was computed for another key or another setting")
        shares = layouts_of(self.parameters, message.n_rows)
        size = FACTOR_BYTES + packed_size(self._contexts.primes[:1], self.parameters.degree)
        if len(message.content) != size * len(shares):
            raise MessageError("the result does not have the size that its number of rows asks for")
        found = []
        for index, (layout, rows) in enumerate(shares):
            slots = self._slots(memoryview(message.content)[index * size : (index + 1) * size])
            wins, checks = attained(slots, layout, rows.stop - rows.start, PLAIN_MODULUS)
            if np.any(checks != message.n_answered):
                raise DecryptionError("the result is not what the clients' answers give: its check fails")
            found.append(wins)
        return np.concatenate(found)

    def _slots(self, data: memoryview) -> NDArray[np.int64]:
        factor = int.from_bytes(data[:FACTOR_BYTES], "little")
        if not 0 < factor < PLAIN_MODULUS:
            raise MessageError("the result is malformed")
        room = self._contexts.low
        sums = PlaneSums(self._contexts.primes[:1], self.parameters.degree)
        sums.add(data[FACTOR_BYTES:])
        cipher = self._contexts.seal.Ciphertext()
        cipher.load_bytes(room.context, ciphertext_bytes(room.levels[1], sums.total(), 1))
        if self._decryptor.invariant_noise_budget(cipher) < LEAST_BUDGET:
            raise DecryptionError(
                "the result cannot be read: its noise is exhausted, or it is of another key"
            )
        plain = self._contexts.encoder.decode_uint64(self._decryptor.decrypt(cipher))
        return np.asarray(plain.astype(np.int64) * factor % PLAIN_MODULUS)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the secret key to a file that only its owner may read."""
        target = _file(path)
        header = {"version": VERSION, "kind": "fhe-secret-key", "setting": list(self._setting)}
        arrays = {
            name: np.frombuffer(key, dtype=np.uint8)
            for name, key in (("secret", self._secret), ("public", self._public))
        }
        with atomic_write(target, private=True) as file:
            file.write(pack_frame(header, arrays))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Querier:
        """The querier that :meth:`save` wrote."""
        target = _file(path)
        try:
            header, arrays = unpack_frame(target.read_bytes(), MAX_FILE_BYTES)
            setting, key_id = header["setting"], header["setting"][3]
            if header["version"] != VERSION or header["kind"] != "fhe-secret-key":
                raise FileFormatError("the file holds no secret key of this version")
            querier = cls.__new__(cls)
            querier.parameters = choose(*setting[:3])
            querier._open(arrays["secret"].tobytes(), arrays["public"].tobytes())
        except (MessageError, LookupError, TypeError, ValueError):
            raise FileFormatError("the file holds no secret key of this version, or is damaged") from None
        if querier.key_id != key_id:
            raise FileFormatError("the keys in the file do not belong together")
        return querier


def _file(path: Any) -> Path:
    if not isinstance(path, str | os.PathLike):
        raise InvalidInputError("the path of a key file must be a string or a path")
    return Path(path)
