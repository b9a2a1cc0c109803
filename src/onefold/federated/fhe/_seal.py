"""SEAL: contexts for one choice of parameters, and the engine that computes on ciphertexts (BGV).

Rotations happen where few primes are left. Their keys are made in *small contexts*, which have only those
primes and the same secret: a tenth of the size they would have in the full context. A ciphertext moves to
another context by changing the name of its level.

BGV leaves a factor in the message at every change of modulus. SEAL keeps it in the ciphertext and evens it
out before an addition by multiplying both sides, which costs noise each time. Here it is kept outside: the
message of a :class:`Cipher` is ``factor`` times what SEAL sees, and known coefficients absorb it at no cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from onefold._base.arrays import Polynomials
from onefold._base.optional import require
from onefold._base.seal_bytes import ciphertext_bytes, read_ciphertext, relabelled
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.fhe._circuit import Combination
from onefold.federated.fhe._layout import PLAIN_MODULUS, Slots
from onefold.federated.fhe.parameters import Parameters

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
    """The operations of :class:`~._circuit.Engine`, with the evaluation keys of a querier."""

    def __init__(self, contexts: Contexts, keys: Sequence[tuple[Any, Any]]) -> None:
        self.contexts = contexts
        self._keys = keys  # for each chain, relinearisation keys and rotation keys
        self._means: dict[tuple[int, int, int], Any] = {}
        self._constants: dict[tuple[int, int], Any] = {}

    def load_sum(self, polynomials: Polynomials, summands: int) -> Cipher:
        """Return the sum of ``summands`` fresh ciphertexts, from its polynomials (2, primes, N)."""
        inner = self._loaded(polynomials)
        self._centre(inner, summands)
        return Cipher(inner)

    def add_errors(self, a: Cipher, fresh: Polynomials, noise: Polynomials) -> Cipher:
        """Add multiples of t: a transformed encryption of 0, and polynomials that are not transformed."""
        total = self._evaluator(a).add(a.inner, self._loaded(fresh))
        self._evaluator(a).add_inplace(total, self._loaded(noise, transformed=False))
        return Cipher(total, a.factor)

    def _loaded(self, polynomials: Polynomials, transformed: bool = True) -> Any:
        n_primes = polynomials.shape[1]
        chain = self.contexts.chain(n_primes)
        inner = self._read(ciphertext_bytes(chain.levels[n_primes], polynomials, transformed), n_primes)
        if not inner.is_ntt_form():  # SEAL 4.4 transforms while it reads
            chain.evaluator.transform_to_ntt_inplace(inner)
        return inner

    def _read(self, data: bytes, n_primes: int) -> Any:
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
            inner = self._read(ciphertext_bytes(level, polynomials[:, :n_primes]), n_primes)
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
        inner = self._read(relabelled(switched, self.contexts.chain(left).levels[left]), left)
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
        return self._loaded(whole * np.uint64(PLAIN_MODULUS) % primes, transformed=False)

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
