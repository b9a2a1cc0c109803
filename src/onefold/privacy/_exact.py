"""Probabilities to as many binary digits as anyone asks for, and Gaussian tails to as many decimals."""

from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from scipy.special import ndtri

from onefold.privacy._streams import ByteStream

__all__ = [
    "Probability",
    "exponential",
    "gaussian_magnitude",
    "gaussian_tail",
    "keep",
    "logistic",
    "tanh_half",
]

GUARD = 64  # binary digits computed beyond those asked for
LARGEST_EXPONENT = 10**9


class Probability:
    """An irrational number of (0, 1), computed in whatever precision the decimal context has.

    Irrational, as exp of a rational number other than 0 always is: no finite string of digits ties for ever.
    """

    def __init__(self, compute: Callable[[], Decimal]) -> None:
        self._compute = compute
        self._known: dict[tuple[int, int], int] = {}

    def __float__(self) -> float:
        return float(_in_precision(self._compute, 128))

    def digits(self, skip: int, count: int) -> int:
        """``count`` binary digits after the first ``skip`` ones, as an integer."""
        key = (skip, count)
        if key not in self._known:
            self._known[key] = self._floor(skip + count) % (1 << count)
        return self._known[key]

    def _floor(self, n: int) -> int:
        """floor(2**n p). The computed digits are trusted only where their error cannot carry."""
        precision = n + GUARD
        while True:
            scaled = _scaled(_in_precision(self._compute, precision), precision)
            rest = scaled % (1 << (precision - n))
            error = 1 << (GUARD // 2)  # far above the few last places the evaluation can be wrong by
            if error < rest < (1 << (precision - n)) - error:
                return scaled >> (precision - n)
            precision += GUARD


def _in_precision(compute: Callable[[], Decimal], bits: int) -> Decimal:
    with localcontext() as context:
        context.prec = int(bits * 0.30103) + 30
        context.Emax, context.Emin = LARGEST_EXPONENT, -LARGEST_EXPONENT
        return compute()


def _scaled(value: Decimal, bits: int) -> int:
    numerator, denominator = value.as_integer_ratio()
    return (numerator << bits) // denominator


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def logistic(x: Fraction) -> Probability:
    """1 / (1 + exp(x))."""
    return Probability(lambda: 1 / (1 + _decimal(x).exp()))


def exponential(x: Fraction) -> Probability:
    """exp(-x)."""
    return Probability(lambda: (-_decimal(x)).exp())


def tanh_half(x: Fraction, atom: Fraction) -> Probability:
    """atom + (1 - atom) tanh(x / 2)."""

    def compute() -> Decimal:
        a = (-_decimal(x)).exp()
        return _decimal(atom) + (1 - _decimal(atom)) * (1 - a) / (1 + a)

    return Probability(compute)


@lru_cache(maxsize=64)
def keep(epsilon: Fraction, n_classes: int) -> Probability:
    """exp(epsilon) / (exp(epsilon) + n_classes - 1), written so that a large epsilon cannot overflow."""
    return Probability(lambda: 1 / (1 + (n_classes - 1) * (-_decimal(epsilon)).exp()))


@lru_cache(maxsize=8)
def _pi(precision: int) -> Decimal:
    """pi by Machin's formula, 16 arctan(1/5) - 4 arctan(1/239), in integers."""
    unit = 10 ** (precision + 10)

    def arctan_of_inverse(n: int) -> int:
        power, total, k = unit // n, 0, 0
        while power:
            total += (-1) ** k * (power // (2 * k + 1))
            power //= n * n
            k += 1
        return total

    return Decimal(16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239)) / Decimal(unit)


def gaussian_tail(x: Fraction, bits: int) -> int:
    """floor(2**bits P(|z| > x)) for a standard Gaussian z, up to one unit either way.

    P(|z| <= x) = sqrt(2/pi) exp(-x^2/2) (x + x^3/3 + x^5/(3 5) + ...), a series of positive terms.
    """
    with localcontext() as context:
        context.prec = precision = int(bits * 0.30103) + 30
        context.Emax, context.Emin = LARGEST_EXPONENT, -LARGEST_EXPONENT
        value = _decimal(x)
        square = value * value
        term = total = value
        n = 1
        while term > total * Decimal(10) ** -precision:
            n += 2
            term = term * square / n
            total += term
        inside = (2 / _pi(precision)).sqrt() * (-square / 2).exp() * total
        return _scaled(max(1 - inside, Decimal(0)), bits)


def gaussian_magnitude(stream: ByteStream, sigma: float, tail: int, bits: int) -> int:
    """floor(sigma |z| + 1/2) where the tail P(|z'| > |z|) starts with the given binary digits.

    The answer is k exactly when the tail lies between those of (k + 1/2) / sigma and (k - 1/2) / sigma.
    Digits are drawn until both comparisons are decided; a float only says where to begin.
    """
    while tail < 1 << 60:
        tail, bits = (tail << 64) | stream.integer(64), bits + 64
    k = int(sigma * -float(ndtri(tail / (1 << (bits + 1)))) + 0.5)
    while True:
        lower = gaussian_tail(Fraction(2 * k + 1, 2) / Fraction(sigma), bits)
        upper = gaussian_tail(Fraction(2 * k - 1, 2) / Fraction(sigma), bits) if k > 0 else 2 << bits
        if tail < lower - 1:
            k += 1
        elif tail > upper + 1:
            k -= 1
        elif lower + 1 < tail < upper - 1:
            return k
        else:
            tail, bits = (tail << 64) | stream.integer(64), bits + 64
