"""SEAL: contexts for one choice of parameters, ciphertexts and the engine that computes on them (BGV).

Rotations happen where few primes are left. Their keys are made in *small contexts*, which have only those
primes and the same secret: a tenth of the size they would have in the full context. A ciphertext moves to
another context by changing the name of its level.

BGV leaves a factor in the message at every change of modulus. SEAL keeps it in the ciphertext and evens it
out before an addition by multiplying both sides, which costs noise each time. Here it is kept outside: the
message of a :class:`Cipher` is ``factor`` times what SEAL sees, and known coefficients absorb it at no cost.

**The bytes of SEAL's objects.** The Python binding cannot take them apart. SEAL 4 writes, little endian and
uncompressed: a header of 16 bytes, the 32 bytes that name a level, the fixed fields, and an array with a
header of its own. A coefficient takes 8 bytes. Nothing here is for bytes of others: what comes from elsewhere
travels as bare coefficients, whose number and size are known, and gets its header here.

**The bytes of messages.** A coefficient takes 8 bytes where SEAL writes it. In a message it takes as many
bytes as its prime has, in one to three *planes* (the low 16 or 32 bits, and the rest). The server adds planes
over sites without assembling the coefficients."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Polynomials, Residues
from onefold._base.optional import require
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.fhe.circuit import PLAIN_MODULUS, Combination, Slots, random_words
from onefold.federated.fhe.parameters import Parameters, ciphertext_size

LevelId = Sequence[int]

LIMB_BITS = 16
SUMMANDS = 4
HEADER = struct.Struct("<HBBBBHQ")  # magic, own size, version (2), compression, reserved, size of all
FIELDS = struct.Struct("<4Q?QQQdQ")  # level, is it transformed, polynomials, N, primes, scale, factor
PLAIN_FIELDS = struct.Struct("<4QQd")  # level, coefficients, scale: of plaintexts and of secret keys
COUNT = struct.Struct("<Q")
MAGIC = 0xA15E
VERSION = (4, 4)
PLANES = {1: "u1", 2: "<u2", 3: "<u2 u1", 4: "<u4", 5: "<u4 u1", 6: "<u4 <u2", 7: "<u4 <u2 u1", 8: "<u4 <u4"}


# --- bytes of SEAL's objects ------------------------------------------------------------------------------


def _header(size: int) -> bytes:
    return HEADER.pack(MAGIC, HEADER.size, *VERSION, 0, 0, size)


def _whole(fields: bytes, coefficients: Residues) -> bytes:
    data = COUNT.pack(coefficients.size) + np.ascontiguousarray(coefficients, dtype="<u8").tobytes()
    body = fields + _header(HEADER.size + len(data)) + data
    return _header(HEADER.size + len(body)) + body


def ciphertext_bytes(level: LevelId, polynomials: Polynomials, transformed: bool = True) -> bytes:
    """Return what SEAL reads as a ciphertext with the factor 1, or as a public key."""
    size, primes, degree = polynomials.shape
    return _whole(FIELDS.pack(*level, transformed, size, degree, primes, 1.0, 1), polynomials)


def relabelled(data: bytes, level: LevelId) -> bytes:
    """Return what SEAL wrote, under the name of a level (of another context), and with the factor 1."""
    fields = list(FIELDS.unpack_from(data, HEADER.size))
    fields[:4], fields[-1] = level, 1
    return b"".join(
        [data[: HEADER.size], FIELDS.pack(*fields), memoryview(data)[HEADER.size + FIELDS.size :]]
    )


def read_ciphertext(data: bytes) -> Polynomials:
    """Return the polynomials of what SEAL wrote in this process; never use it on received bytes."""
    *_, size, degree, primes, _, _ = FIELDS.unpack_from(data, HEADER.size)
    flat = np.frombuffer(data, dtype="<u8", offset=2 * HEADER.size + FIELDS.size + COUNT.size)
    return flat.reshape(size, primes, degree)


def secret_rows(data: bytes, rows: Sequence[int], level: LevelId, degree: int) -> bytes:
    """Return a secret key restricted to some of its primes, for a context that has only those."""
    whole = np.frombuffer(data, dtype="<u8", offset=2 * HEADER.size + PLAIN_FIELDS.size + COUNT.size)
    kept = whole.reshape(-1, degree)[list(rows)]
    return _whole(PLAIN_FIELDS.pack(*level, kept.size, 1.0), kept)


# --- bytes of messages ------------------------------------------------------------------------------------


def _plane_types(prime: int) -> list[np.dtype[np.unsignedinteger]]:
    return [np.dtype(kind) for kind in PLANES[(prime.bit_length() + 7) // 8].split()]


def shifted(values: NDArray[np.uint64], bits: int, prime: int) -> NDArray[np.uint64]:
    """Return 2^bits times numbers modulo a prime, shifting so few bits at a time that 64 bits suffice."""
    while bits:
        step = min(bits, 64 - prime.bit_length())
        values = (values << np.uint64(step)) % np.uint64(prime)
        bits -= step
    return values


def pack_planes(polynomials: Polynomials, primes: Sequence[int]) -> bytes:
    """Return a ciphertext in as few whole bytes per coefficient as its primes need."""
    parts = []
    for index, prime in enumerate(primes):
        rest = polynomials[:, index]
        for kind in _plane_types(prime):
            parts.append(rest.astype(kind).tobytes())  # keeps the low bits
            rest = rest >> np.uint64(8 * kind.itemsize)
    return b"".join(parts)


def _zeros(kind: np.dtype[np.unsignedinteger], size: int) -> NDArray[np.unsignedinteger]:
    """Return zeros in which 2^16 numbers of this kind can be added without overflow."""
    return np.zeros(size, dtype=np.uint64 if kind.itemsize > 2 else np.uint32)


class PlaneSums:
    """The sum of packed ciphertexts, of at most 2^16 of them."""

    def __init__(self, primes: Sequence[int], degree: int) -> None:
        self.primes, self.degree = tuple(primes), degree
        self._kinds = [_plane_types(prime) for prime in primes]
        self._sums = [[_zeros(kind, 2 * degree) for kind in kinds] for kinds in self._kinds]

    def add(self, data: memoryview) -> PlaneSums:
        """Add one more ciphertext; raise MessageError if it does not have the right size."""
        if data.nbytes != ciphertext_size([prime.bit_length() for prime in self.primes], self.degree):
            raise MessageError("a ciphertext of the message has the wrong size")
        start = 0
        for kinds, sums in zip(self._kinds, self._sums, strict=True):
            for kind, total in zip(kinds, sums, strict=True):
                stop = start + kind.itemsize * total.size
                total += np.frombuffer(data[start:stop], dtype=kind)
                start = stop
        return self

    def total(self) -> Polynomials:
        """Return the sum, reduced modulo each prime."""
        rows = []
        for prime, kinds, sums in zip(self.primes, self._kinds, self._sums, strict=True):
            value = sums[-1].astype(np.uint64) % np.uint64(prime)
            for kind, plane in zip(kinds[-2::-1], sums[-2::-1], strict=True):
                value = (shifted(value, 8 * kind.itemsize, prime) + plane) % np.uint64(prime)
            rows.append(value.reshape(2, self.degree))
        return np.stack(rows, axis=1)


def flood(bits: int, degree: int, primes: list[int]) -> Polynomials:
    """Return the polynomials (t E, 0), not transformed, modulo each prime (of at most 60 bits).

    Whoever holds the secret key reads not only the message of a ciphertext but also its error, and the error
    depends on what the sites sent. E is a sum of four uniform numbers of ``bits`` bits
    (:attr:`~.parameters.Parameters.flood_bits`), from the operating system. A sum of four has finite Fisher
    information (one uniform number has not), so the statistical distance grows with the square root of N
    instead of N.
    """
    limbs = [sum(random_words(degree) for _ in range(SUMMANDS)) for _ in range(bits // LIMB_BITS)]
    rest = bits % LIMB_BITS
    if rest:
        limbs.insert(0, sum(random_words(degree) >> (LIMB_BITS - rest) for _ in range(SUMMANDS)))
    middle = SUMMANDS * (2**bits - 1) // 2
    rows = np.zeros((2, len(primes), degree), dtype=np.uint64)
    for index, prime in enumerate(primes):
        value = np.zeros(degree, dtype=np.uint64)
        for limb in limbs:  # from the highest: the sum of four numbers is the sum of their limbs
            value = (shifted(value, LIMB_BITS, prime) + np.asarray(limb, dtype=np.uint64)) % np.uint64(prime)
        value = (value + np.uint64(prime - middle % prime)) % np.uint64(prime)
        rows[0, index] = (shifted(value, LIMB_BITS, prime) + value) % np.uint64(prime)  # t = 2^16 + 1
    return rows


# --- contexts ---------------------------------------------------------------------------------------------


class Chain:
    """One SEAL context over a chain of primes: its levels by number of primes, and an evaluator."""

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
    """The chains of ``parameters.chains``, from the full one down."""

    def __init__(self, parameters: Parameters) -> None:
        self.seal = seal = require("seal", "fhe")
        self.parameters = parameters
        sizes = [*parameters.prime_bits, parameters.special_bits]
        moduli = seal.CoeffModulus.Create(parameters.degree, sizes)
        *self.primes, self.special = (modulus.value() for modulus in moduli)
        self.chains = [
            Chain(seal, parameters.degree, self.primes[:n], self.special) for n in parameters.chains
        ]
        self.encoder = seal.BatchEncoder(self.full.context)

    @property
    def full(self) -> Chain:
        """The chain of all primes, in which sites encrypt."""
        return self.chains[0]

    @property
    def low(self) -> Chain:
        """The chain of the fewest primes, in which results are decrypted."""
        return self.chains[-1]

    def chain_number(self, n_primes: int) -> int:
        """Return the index of the shortest chain that holds a ciphertext of ``n_primes`` primes."""
        return max(i for i, chain in enumerate(self.chains) if len(chain.primes) >= n_primes)

    def chain(self, n_primes: int) -> Chain:
        """Return the shortest chain that holds a ciphertext of ``n_primes`` primes."""
        return self.chains[self.chain_number(n_primes)]


@lru_cache(maxsize=4)
def contexts_for(parameters: Parameters) -> Contexts:
    """Return the contexts of some parameters, made once: there is nothing secret in them."""
    return Contexts(parameters)


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Raise MessageError where SEAL refuses bytes that are no such key."""
    try:
        yield
    except (RuntimeError, ValueError, IndexError, MemoryError):
        raise MessageError(f"{what} cannot be read by SEAL with these parameters") from None


# --- ciphertexts ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cipher:
    """An immutable ciphertext: its value is ``factor`` times the message that SEAL sees."""

    inner: Any
    factor: int = 1
    cut: dict[int, Cipher] = field(default_factory=dict, repr=False, compare=False)  # with fewer primes

    @property
    def n_primes(self) -> int:
        """Primes left."""
        return int(self.inner.coeff_modulus_size())


class Ciphertexts:
    """The operations of :class:`~.circuit.Engine`, with the evaluation keys of a querier."""

    def __init__(self, contexts: Contexts, keys: Sequence[tuple[Any, Any]]) -> None:
        self.contexts = contexts
        self._keys = keys  # for each chain, relinearisation keys and rotation keys
        self._means: dict[tuple[int, int, int], Any] = {}
        self._constants: dict[tuple[int, int], Any] = {}

    def fresh_sum(self, polynomials: Polynomials, summands: int) -> Cipher:
        """Return the sum of ``summands`` fresh ciphertexts, from its polynomials (2, primes, N)."""
        inner = self._inner_of(polynomials)
        self._centre(inner, summands)
        return Cipher(inner)

    def add_errors(self, a: Cipher, fresh: Polynomials, noise: Polynomials) -> Cipher:
        """Add multiples of t: a transformed encryption of 0, and polynomials that are not transformed."""
        total = self._evaluator(a).add(a.inner, self._inner_of(fresh))
        self._evaluator(a).add_inplace(total, self._inner_of(noise, transformed=False))
        return Cipher(total, a.factor)

    def _inner_of(self, polynomials: Polynomials, transformed: bool = True) -> Any:
        n_primes = polynomials.shape[1]
        chain = self.contexts.chain(n_primes)
        inner = self._inner(ciphertext_bytes(chain.levels[n_primes], polynomials, transformed), n_primes)
        if not inner.is_ntt_form():  # SEAL 4.4 transforms while it reads
            chain.evaluator.transform_to_ntt_inplace(inner)
        return inner

    def _inner(self, data: bytes, n_primes: int) -> Any:
        inner = self.contexts.seal.Ciphertext()
        inner.load_bytes(self.contexts.chain(n_primes).context, data)
        return inner

    def _evaluator(self, a: Cipher) -> Any:
        return self.contexts.chain(a.n_primes).evaluator

    def truncate(self, a: Cipher, n_primes: int) -> Cipher:
        """Return the same message and noise modulo the first ``n_primes`` primes, at almost no cost.

        What holds modulo all primes holds modulo some of them, as long as these have room for the noise.
        """
        if a.n_primes == n_primes:
            return a
        if n_primes not in a.cut:
            level = self.contexts.chain(n_primes).levels[n_primes]
            polynomials = read_ciphertext(a.inner.to_string())
            inner = self._inner(ciphertext_bytes(level, polynomials[:, :n_primes]), n_primes)
            a.cut[n_primes] = Cipher(inner, a.factor)
        return a.cut[n_primes]

    def drop(self, a: Cipher, n_primes: int) -> Cipher:
        """Return the same message with ``n_primes`` primes left, and noise reduced as much as the modulus."""
        while a.n_primes > n_primes:
            a = self._dropped(a)
        return a

    def _dropped(self, a: Cipher) -> Cipher:
        lost = self.contexts.primes[a.n_primes - 1]
        left = a.n_primes - 1
        switched = self._evaluator(a).mod_switch_to_next(a.inner).to_string()
        inner = self._inner(relabelled(switched, self.contexts.chain(left).levels[left]), left)
        self._centre(inner, 1)
        return Cipher(inner, a.factor * lost % PLAIN_MODULUS)

    def _centre(self, inner: Any, roundings: int) -> None:
        """Subtract the mean of the rounding error.

        SEAL rounds in one direction: every coefficient of an error is t times something in [0, 1). The mean
        adds up over sites, and products enlarge it most. Subtracting multiples of t changes no message.
        """
        key = (inner.size(), inner.coeff_modulus_size(), roundings)
        if key not in self._means:
            self._means[key] = self._mean(*key)
        self.contexts.chain(key[1]).evaluator.add_inplace(inner, self._means[key])

    def _mean(self, size: int, level: int, roundings: int) -> Any:
        degree = self.contexts.parameters.degree
        whole = np.full((size, 1, degree), roundings // 2, dtype=np.uint64)
        if roundings % 2:  # half a multiple: none or one, in a fixed pattern without any structure
            generator = np.random.default_rng(roundings)  # nothing secret: only the mean matters
            whole = whole + generator.integers(0, 2, whole.shape, dtype=np.uint64)
        primes = np.array(self.contexts.primes[:level], dtype=np.uint64)[None, :, None]
        return self._inner_of(whole * np.uint64(PLAIN_MODULUS) % primes, transformed=False)

    def _level(self, *values: Cipher | None) -> int:
        return min(value.n_primes for value in values if value is not None)

    def combine(
        self, sum_: Combination[Cipher], factor: int | None = None, most: int | None = None
    ) -> Cipher:
        """Return a combination, as a cipher with a given factor and at most ``most`` primes.

        Without a given factor it is that of the first value: a value to which only a constant is added is
        then not multiplied by anything, and its noise stays as it is.
        """
        level = self._level(*(value for _, value in sum_.terms))
        level = level if most is None else min(level, most)
        factor = sum_.terms[0][1].factor if factor is None else factor
        inverse = pow(factor, -1, PLAIN_MODULUS)
        total: Any = None
        for coefficient, value in sum_.terms:
            if coefficient % PLAIN_MODULUS == 0 and len(sum_.terms) > 1:  # SEAL refuses to multiply by 0
                continue
            value = self.truncate(value, level)
            scaled = self._scaled(value.inner, coefficient * value.factor * inverse % PLAIN_MODULUS)
            if total is None:
                total = scaled
            else:
                self._evaluator(value).add_inplace(total, scaled)
        constant = sum_.constant * inverse % PLAIN_MODULUS
        if constant:
            self.contexts.chain(level).evaluator.add_plain_inplace(total, self._constant(constant))
        return Cipher(total, factor)

    def _constant(self, number: int) -> Any:
        return self.contexts.seal.Plaintext(f"{number:X}")

    def _scaled(self, inner: Any, number: int) -> Any:
        if number == 1:
            return self.contexts.seal.Ciphertext(inner)
        n_primes = inner.coeff_modulus_size()
        chain = self.contexts.chain(n_primes)
        if number == PLAIN_MODULUS - 1:
            return chain.evaluator.negate(inner)
        if (number, n_primes) not in self._constants:  # the same in every query: transformed once
            transformed = chain.evaluator.transform_to_ntt(self._constant(number), chain.levels[n_primes])
            self._constants[number, n_primes] = transformed
        return chain.evaluator.multiply_plain(inner, self._constants[number, n_primes])

    def sum_of_products(
        self,
        pairs: Sequence[tuple[Combination[Cipher], Cipher | None]],
        extra: Cipher | None,
        aim: tuple[Cipher, Cipher] | None = None,
    ) -> Cipher:
        """Add combinations times ciphers; the known coefficients make all factors equal.

        All is done with the primes that are left at the end. The coefficients add to the noise of one factor
        of every product.
        """
        values = [value for sum_, partner in pairs for value in (*(each for _, each in sum_.terms), partner)]
        level = self._level(*values, extra)
        total = None if extra is None else self.truncate(extra, level)
        wish = 1 if total is None else total.factor
        if aim is not None:
            partner, other = aim
            lost = self.contexts.primes[level - 1]  # when the sum is settled
            wish = other.factor * pow(partner.factor * lost, -1, PLAIN_MODULUS) % PLAIN_MODULUS
        for sum_, factor in pairs:
            part = self._product(sum_, factor, level, wish)
            total = part if total is None else self._plus(total, part)
        if total is None:
            raise AssertionError("there is at least one product")
        return total

    def _product(self, sum_: Combination[Cipher], partner: Cipher | None, level: int, wish: int) -> Cipher:
        """Return a combination times its partner, with the given factor."""
        if partner is None:
            return self.combine(sum_, wish, level)
        other = self.truncate(partner, level)
        own = self.combine(sum_, wish * pow(other.factor, -1, PLAIN_MODULUS) % PLAIN_MODULUS, level)
        return Cipher(self._evaluator(own).multiply(own.inner, other.inner), wish)

    def _plus(self, a: Cipher, b: Cipher) -> Cipher:
        """Add two ciphers, whichever of the two has more polynomials."""
        large, small = (a, b) if a.inner.size() >= b.inner.size() else (b, a)
        return self.add(large, small)

    def add(self, a: Cipher, b: Cipher) -> Cipher:
        """Add two ciphers with the same factor."""
        level = self._level(a, b)
        a, b = self.truncate(a, level), self.truncate(b, level)
        if a.factor != b.factor:
            raise AssertionError("only ciphers with the same factor are added")
        return Cipher(self._evaluator(a).add(a.inner, b.inner), a.factor)

    def multiply(self, a: Cipher, b: Cipher) -> Cipher:
        """Multiply; the product has three polynomials."""
        level = self._level(a, b)
        a, b = self.truncate(a, level), self.truncate(b, level)
        return Cipher(self._evaluator(a).multiply(a.inner, b.inner), a.factor * b.factor % PLAIN_MODULUS)

    def relinearise(self, a: Cipher) -> Cipher:
        """Return a cipher of two polynomials."""
        if a.inner.size() == 2:
            return a
        keys, _ = self._keys[self.contexts.chain_number(a.n_primes)]
        return Cipher(self._evaluator(a).relinearize(a.inner, keys), a.factor)

    def settle(self, a: Cipher) -> Cipher:
        """Return a cipher of two polynomials and one prime less."""
        return self.drop(self.relinearise(a), a.n_primes - 1)

    def rotate(self, a: Cipher, steps: int) -> Cipher:
        """Rotate both rows, in a chain that has keys for it."""
        _, keys = self._keys[self.contexts.chain_number(a.n_primes)]
        return Cipher(self._evaluator(a).rotate_rows(a.inner, steps, keys), a.factor)

    def scale_slots(self, a: Cipher, slots: Slots) -> Cipher:
        """Multiply by known factors, which absorb the cipher's own."""
        plain = self.contexts.encoder.encode((slots * a.factor % PLAIN_MODULUS).astype(np.uint64))
        return Cipher(self._evaluator(a).multiply_plain(a.inner, plain))

    def shift_slots(self, a: Cipher, slots: Slots) -> Cipher:
        """Add known numbers."""
        own = slots * pow(a.factor, -1, PLAIN_MODULUS) % PLAIN_MODULUS
        return Cipher(
            self._evaluator(a).add_plain(a.inner, self.contexts.encoder.encode(own.astype(np.uint64))),
            a.factor,
        )
