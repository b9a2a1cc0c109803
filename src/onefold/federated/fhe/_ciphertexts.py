"""The engine that computes on ciphertexts (BGV in SEAL).

BGV leaves a factor in the message at every change of modulus. SEAL keeps it in the ciphertext and evens it
out before an addition by multiplying both sides, which costs noise each time. Here it is kept outside: the
message of :class:`Cipher` is ``factor`` times what SEAL sees, and known coefficients absorb it for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold.federated.fhe._circuit import PLAIN_MODULUS
from onefold.federated.fhe._contexts import Contexts
from onefold.federated.fhe._engine import Combination
from onefold.federated.fhe._wire import Polynomials, ciphertext_bytes, relabelled, truncated

__all__ = ["Cipher", "Ciphertexts"]

Slots = NDArray[np.int64]


@dataclass(frozen=True)
class Cipher:
    """A ciphertext of SEAL whose message, times ``factor``, is meant; never changed once it is made."""

    inner: Any
    factor: int = 1
    cut: dict[int, Cipher] = field(default_factory=dict, repr=False, compare=False)  # with fewer primes

    @property
    def n_primes(self) -> int:
        """Primes left."""
        return int(self.inner.coeff_modulus_size())


class Ciphertexts:
    """The operations of :class:`~._engine.Engine`, with the evaluation keys of a querier."""

    def __init__(self, contexts: Contexts, keys: Sequence[tuple[Any, Any]]) -> None:
        self.contexts = contexts
        self._keys = keys  # for each room those that relinearise, and those that rotate
        self._means: dict[tuple[int, int, int], Any] = {}
        self._constants: dict[tuple[int, int], Any] = {}

    def load_sum(self, polynomials: Polynomials, summands: int) -> Cipher:
        """The sum of fresh ciphertexts, from its polynomials (2, primes, N)."""
        inner = self._loaded(polynomials)
        self._centre(inner, summands)
        return Cipher(inner)

    def add_errors(self, a: Cipher, fresh: Polynomials, noise: Polynomials) -> Cipher:
        """Plus multiples of t: a transformed encryption of 0, and polynomials that are not transformed."""
        total = self._evaluator(a).add(a.inner, self._loaded(fresh))
        self._evaluator(a).add_inplace(total, self._loaded(noise, transformed=False))
        return Cipher(total, a.factor)

    def _loaded(self, polynomials: Polynomials, transformed: bool = True) -> Any:
        n_primes = polynomials.shape[1]
        room = self.contexts.room(n_primes)
        inner = self._read(ciphertext_bytes(room.levels[n_primes], polynomials, 1, transformed), n_primes)
        if not inner.is_ntt_form():  # SEAL 4.4 transforms while it reads
            room.evaluator.transform_to_ntt_inplace(inner)
        return inner

    def _read(self, data: bytes, n_primes: int) -> Any:
        inner = self.contexts.seal.Ciphertext()
        inner.load_bytes(self.contexts.room(n_primes).context, data)
        return inner

    def _evaluator(self, a: Cipher) -> Any:
        return self.contexts.room(a.n_primes).evaluator

    def truncate(self, a: Cipher, n_primes: int) -> Cipher:
        """The same message and the same noise modulo the first ``n_primes`` primes; it costs next to nothing.

        What holds modulo all primes holds modulo some of them. Noise that is small needs no more.
        """
        if a.n_primes == n_primes:
            return a
        if n_primes not in a.cut:
            level = self.contexts.room(n_primes).levels[n_primes]
            inner = self._read(truncated(a.inner.to_string(), level, n_primes), n_primes)
            a.cut[n_primes] = Cipher(inner, a.factor)
        return a.cut[n_primes]

    def drop(self, a: Cipher, n_primes: int) -> Cipher:
        """The same message with ``n_primes`` primes left, and noise smaller by as much as the modulus."""
        while a.n_primes > n_primes:
            a = self._dropped(a)
        return a

    def _dropped(self, a: Cipher) -> Cipher:
        lost = self.contexts.primes[a.n_primes - 1]
        left = a.n_primes - 1
        switched = self._evaluator(a).mod_switch_to_next(a.inner).to_string()
        inner = self._read(relabelled(switched, self.contexts.room(left).levels[left]), left)
        self._centre(inner, 1)
        return Cipher(inner, a.factor * lost % PLAIN_MODULUS)

    def _centre(self, inner: Any, roundings: int) -> None:
        """Take off the mean of the error of rounding.

        SEAL rounds in one direction: every coefficient of an error is t times something in [0, 1). That mean
        adds up over clients and is what products make largest. Multiples of t may be taken off freely.
        """
        key = (inner.size(), inner.coeff_modulus_size(), roundings)
        if key not in self._means:
            self._means[key] = self._mean(*key)
        self.contexts.room(key[1]).evaluator.add_inplace(inner, self._means[key])

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

    def combine(self, sum_: Combination[Cipher], factor: int = 1, most: int | None = None) -> Cipher:
        """A combination, as a cipher with a wished factor and at most ``most`` primes."""
        level = self._level(*(value for _, value in sum_.terms))
        level = level if most is None else min(level, most)
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
            self.contexts.room(level).evaluator.add_plain_inplace(total, self._constant(constant))
        return Cipher(total, factor)

    def _constant(self, number: int) -> Any:
        return self.contexts.seal.Plaintext(f"{number:X}")

    def _scaled(self, inner: Any, number: int) -> Any:
        if number == 1:
            return self.contexts.seal.Ciphertext(inner)
        n_primes = inner.coeff_modulus_size()
        room = self.contexts.room(n_primes)
        if number == PLAIN_MODULUS - 1:
            return room.evaluator.negate(inner)
        if (number, n_primes) not in self._constants:  # the same in every query: transformed once
            transformed = room.evaluator.transform_to_ntt(self._constant(number), room.levels[n_primes])
            self._constants[number, n_primes] = transformed
        return room.evaluator.multiply_plain(inner, self._constants[number, n_primes])

    def sum_of_products(
        self,
        pairs: Sequence[tuple[Combination[Cipher], Cipher | None]],
        extra: Cipher | None,
        aim: tuple[Cipher, Cipher] | None = None,
    ) -> Cipher:
        """Sums with known coefficients times ciphers; the coefficients make all factors equal.

        All is done with the primes that are left at the end. One factor of every product has the noise of
        coefficients beside its own, so the noise of the sum is above that of other products by theirs.
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
        """A combination times its partner, with the wished factor."""
        if partner is None:
            return self.combine(sum_, wish, level)
        other = self.truncate(partner, level)
        own = self.combine(sum_, wish * pow(other.factor, -1, PLAIN_MODULUS) % PLAIN_MODULUS, level)
        return Cipher(self._evaluator(own).multiply(own.inner, other.inner), wish)

    def _plus(self, a: Cipher, b: Cipher) -> Cipher:
        """The sum, whichever of the two has more polynomials."""
        large, small = (a, b) if a.inner.size() >= b.inner.size() else (b, a)
        return self.add(large, small)

    def add(self, a: Cipher, b: Cipher) -> Cipher:
        """The sum of two ciphers with the same factor."""
        level = self._level(a, b)
        a, b = self.truncate(a, level), self.truncate(b, level)
        if a.factor != b.factor:
            raise AssertionError("only ciphers with the same factor are added")
        return Cipher(self._evaluator(a).add(a.inner, b.inner), a.factor)

    def multiply(self, a: Cipher, b: Cipher) -> Cipher:
        """The product, of three polynomials."""
        level = self._level(a, b)
        a, b = self.truncate(a, level), self.truncate(b, level)
        return Cipher(self._evaluator(a).multiply(a.inner, b.inner), a.factor * b.factor % PLAIN_MODULUS)

    def relinearise(self, a: Cipher) -> Cipher:
        """Two polynomials again."""
        if a.inner.size() == 2:
            return a
        keys, _ = self._keys[self.contexts.room_number(a.n_primes)]
        return Cipher(self._evaluator(a).relinearize(a.inner, keys), a.factor)

    def settle(self, a: Cipher) -> Cipher:
        """Two polynomials, a prime less."""
        return self.drop(self.relinearise(a), a.n_primes - 1)

    def rotate(self, a: Cipher, steps: int) -> Cipher:
        """In the rooms that have keys for it."""
        _, keys = self._keys[self.contexts.room_number(a.n_primes)]
        return Cipher(self._evaluator(a).rotate_rows(a.inner, steps, keys), a.factor)

    def scale_slots(self, a: Cipher, slots: Slots) -> Cipher:
        """Known factors, which absorb the cipher's own."""
        plain = self.contexts.encoder.encode((slots * a.factor % PLAIN_MODULUS).astype(np.uint64))
        return Cipher(self._evaluator(a).multiply_plain(a.inner, plain))

    def shift_slots(self, a: Cipher, slots: Slots) -> Cipher:
        """Known summands."""
        own = slots * pow(a.factor, -1, PLAIN_MODULUS) % PLAIN_MODULUS
        return Cipher(
            self._evaluator(a).add_plain(a.inner, self.contexts.encoder.encode(own.astype(np.uint64))),
            a.factor,
        )
