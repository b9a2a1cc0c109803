"""All three roles in one process: for experiments, tests and to see what an encrypted federation answers."""

from typing import Any

import numpy as np

from onefold._base.arrays import Integers, Mask
from onefold._base.validation import Constraint, Instance, OneOf, check_parameters
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe.circuit import (
    MISSING,
    PLAIN_MODULUS,
    Combination,
    Engine,
    Layout,
    Slots,
    attained,
    check_marks,
    encode,
    pads,
    pick,
    second_pass,
    zero_test,
)
from onefold.federated.fhe.parameters import Parameters, choose
from onefold.federated.fhe.quantiser import MeasureMap, checked_measures, in_every_look, look_at
from onefold.federated.fhe.roles import Client, Querier, check_quantised, whole_numbers
from onefold.federated.fhe.server import Server

__all__ = ["MODES", "EncryptedArgmin", "clear_argmin"]

MODES = ("encrypted", "simulate", "clear")

CONSTRAINTS: dict[str, Constraint] = {
    "mode": OneOf(MODES),
    "measure_map": Instance(MeasureMap, "a MeasureMap with the same number of bits"),
}


class EncryptedArgmin:
    """Which classes attain the minimum of the sites' measures, computed under encryption.

    Parameters
    ----------
    n_clients : int
        Largest number of sites that may answer, at most 200.
    n_classes : int
        Number of classes, at most 100 and less than 2^bits.
    bits : {4, 5, 6, 8, 10, 12, 16}, default=8
        Bits of a quantised measure.
    mode : {"encrypted", "simulate", "clear"}, default="encrypted"
        With encryption; the same arithmetic on the same slots without encryption; or plain minima. The
        results are the same.
    measure_map : MeasureMap or None, default=None
        Map from measures to whole numbers; ``rint((2^bits - 1) d)`` if None. Several looks at a few bits tell
        measures apart that one look cannot.

    Attributes
    ----------
    parameters : Parameters
        Ring and primes, which follow from the first three numbers.

    See Also
    --------
    Querier, Client, Server : The same roles in different places.
    onefold.federated.GlobalClassifier : The same minimum without encryption.

    References
    ----------
    Document 004, eq. 106.

    Examples
    --------
    >>> from onefold.federated.fhe import EncryptedArgmin
    >>> argmin = EncryptedArgmin(n_clients=2, n_classes=3, mode="simulate")
    >>> argmin.run([[[0.5, 0.2, 0.9]], [[0.2, 0.7, 0.8]]])
    array([[ True,  True, False]])
    """

    def __init__(
        self,
        n_clients: int,
        n_classes: int,
        bits: int = 8,
        mode: str = "encrypted",
        measure_map: MeasureMap | None = None,
    ) -> None:
        self.parameters = choose(n_clients, n_classes, bits)
        self.mode, self.measure_map = mode, MeasureMap(bits) if measure_map is None else measure_map
        check_parameters(self, CONSTRAINTS)
        if self.measure_map.bits != bits:
            raise InvalidInputError("measure_map must be a MeasureMap with the same number of bits")
        self._roles: tuple[Querier, Server] | None = None

    def run(self, answers: Any) -> Mask:
        """Return the classes that attain the minimum of the sites' measures.

        Parameters
        ----------
        answers : array-like of float, shape (Q, n, C)
            Measures in [0, 1] of each site, row and class; NaN for a class that a site does not have. There
            may be fewer sites than ``n_clients``: the others did not answer.

        Returns
        -------
        ndarray of bool, shape (n, C)
            True where a class attains the minimum of its row.
        """
        fine, looks = self.measure_map.fine(checked_measures(answers)), self.measure_map.looks
        if fine.ndim != 3:
            return self.run_quantised(fine)  # which says what is wrong
        seen = np.concatenate([look_at(fine, look, looks) for look in range(looks)], axis=1)
        return in_every_look(self.run_quantised(seen), looks)

    def run_quantised(self, values: Any) -> Mask:
        """Return the classes that attain the minimum of quantised measures.

        Parameters
        ----------
        values : array-like of int, shape (Q, n, C)
            Whole numbers in 0 ... 2^bits - 1; -1 for a class that a site does not have.

        Returns
        -------
        ndarray of bool, shape (n, C)
            True where a class attains the minimum of its row.
        """
        numbers = whole_numbers(values)
        n_clients, n_classes = self.parameters.n_clients, self.parameters.n_classes
        if numbers.ndim != 3 or not 0 < len(numbers) <= n_clients or numbers.shape[2] != n_classes:
            raise InvalidInputError(
                f"answers must have the shape (sites, rows, classes), with at most {n_clients} sites and "
                f"{n_classes} classes"
            )
        if not numbers.shape[1]:
            return np.zeros((0, n_classes), dtype=bool)
        flat = check_quantised(numbers.reshape(-1, n_classes), n_classes, 2**self.parameters.bits)
        checked = flat.reshape(numbers.shape)
        if self.mode == "clear":
            return clear_argmin(checked)
        return self._simulated(checked) if self.mode == "simulate" else self._encrypted(checked)

    def _simulated(self, numbers: Integers) -> Mask:
        found = []
        for layout, rows in self.parameters.layouts(numbers.shape[1]):
            slots = _simulate(numbers[:, rows], layout, self.parameters)
            found.append(attained(slots, layout, rows.stop - rows.start)[0])
        return np.concatenate(found)

    def _encrypted(self, numbers: Integers) -> Mask:
        parameters = self.parameters
        if self._roles is None:
            querier = Querier(parameters.n_clients, parameters.n_classes, parameters.bits)
            self._roles = querier, Server(querier.evaluation_keys(check=False))  # every result is checked
        querier, server = self._roles
        key = querier.public_key()
        clients = [Client(key, f"site-{i}") for i in range(len(numbers))]
        at_once = parameters.degree // parameters.n_values  # one ciphertext, so that any number of rows fits
        found = []
        for start in range(0, numbers.shape[1], at_once):
            rows = numbers[:, start : start + at_once]
            messages = (each.encrypt(own, "query") for each, own in zip(clients, rows, strict=True))
            found.append(querier.decrypt(server.aggregate(messages)))
        return np.concatenate(found)


def clear_argmin(numbers: Integers) -> Mask:
    """Return the classes that attain the minimum, without encryption.

    Parameters
    ----------
    numbers : ndarray of int, shape (Q, n, C)
        Quantised measures; -1 for a class that a site does not have, which attains nothing.

    Returns
    -------
    ndarray of bool, shape (n, C)
        True where a class attains the minimum of its row.

    See Also
    --------
    EncryptedArgmin : The same under encryption.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.federated.fhe.argmin import clear_argmin
    >>> clear_argmin(np.array([[[5, 2, -1]], [[2, 7, 8]]]))
    array([[ True,  True, False]])
    """
    present = np.where(numbers == MISSING, np.iinfo(np.int64).max, numbers)
    best = present.min(axis=0)
    return np.asarray((best == best.min(axis=1, keepdims=True)) & (best < np.iinfo(np.int64).max))


# --- simulation -------------------------------------------------------------------------------------------


def _simulate(numbers: Integers, layout: Layout, parameters: Parameters) -> Slots:
    """Return the slots of the result for rows (Q, n, C), with everything hidden that a result hides."""
    engine, n_clients = PlainSlots(), parameters.n_clients
    sent = (encode(each, layout, parameters.digits) for each in numbers)
    n_rows = numbers.shape[1]
    if parameters.digits == 1:
        first = next(sent)
        counts, planes = first.thermometer, first.marks
        for each in sent:
            counts += each.thermometer
            planes += each.marks
        below = zero_test(engine, n_clients, counts)
    else:
        every = list(sent)
        counts = np.sum([each.thermometer for each in every], axis=0)
        digits = [(each.hot, each.low, list(each.marks)) for each in every]
        below, weighed = second_pass(engine, layout, n_clients, counts, digits)
        planes = np.stack(weighed) + check_marks(layout, n_rows, len(numbers))
    picked = pick(engine, layout, below, list(planes))
    return engine.shift_slots(picked, pads(layout, n_rows))


class PlainSlots(Engine[Slots]):
    """The operations of :class:`~.circuit.Engine` on plain numbers modulo t, without encryption."""

    def combine(self, sum_: Combination[Slots]) -> Slots:
        """Add with known coefficients; every term is below t^2 < 2^33."""
        total = np.full_like(sum_.terms[0][1], sum_.constant % PLAIN_MODULUS)
        for coefficient, value in sum_.terms:
            total += coefficient % PLAIN_MODULUS * value
        return np.asarray(total % PLAIN_MODULUS)

    def add(self, a: Slots, b: Slots) -> Slots:
        """Add slot by slot."""
        return (a + b) % PLAIN_MODULUS

    def multiply(self, a: Slots, b: Slots) -> Slots:
        """Multiply slot by slot."""
        return a * b % PLAIN_MODULUS

    def relinearise(self, a: Slots) -> Slots:
        """Do nothing: plain numbers need none, and have no noise."""
        return a

    settle = relinearise

    def rotate(self, a: Slots, steps: int) -> Slots:
        """Shift each of the two rows."""
        return np.roll(a.reshape(2, -1), -steps, axis=1).ravel()

    scale_slots, shift_slots = multiply, add  # known numbers are like any other
