"""All three roles in one process: for experiments, tests and to see what an encrypted federation answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError
from onefold.federated.fhe._circuit import PLAIN_MODULUS
from onefold.federated.fhe._encoding import MISSING, attained
from onefold.federated.fhe._parameters import choose
from onefold.federated.fhe._shares import layouts_of
from onefold.federated.fhe._simulation import simulate
from onefold.federated.fhe.client import Client, check_quantised, whole_numbers
from onefold.federated.fhe.quantiser import Quantiser, checked_measures, shifts
from onefold.federated.fhe.querier import Querier
from onefold.federated.fhe.server import Server

__all__ = ["MODES", "EncryptedArgmin"]

MODES = ("encrypted", "simulate", "clear")

Wins = NDArray[np.bool_]


class EncryptedArgmin:
    """Which classes attain the minimum of the clients' measures (004 eq. 106), computed under encryption.

    Parameters
    ----------
    n_clients, n_classes : int
        At most so many clients (200), this number of classes (100).
    bits : int
        Bits of a quantised measure.
    mode : {"encrypted", "simulate", "clear"}
        With encryption; the same arithmetic on the same slots without encryption; or plain minima. The
        results are the same.
    quantiser : Quantiser, optional
        From measures to whole numbers; by default ``rint((2^bits - 1) d)``.
    looks : int
        How often :meth:`run` asks at most about a row whose classes tie. Each time the boundaries between
        numbers are moved a little, and only classes that attain the minimum every time are left: several
        looks at a few bits tell measures apart that one look cannot.

    Examples
    --------
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
        quantiser: Quantiser | None = None,
        looks: int = 1,
    ) -> None:
        check_whole_number("looks", looks)
        if not isinstance(mode, str) or mode not in MODES:
            raise InvalidInputError(f"mode must be one of {', '.join(MODES)}")
        self.parameters = choose(n_clients, n_classes, bits)
        self.mode = mode
        self.quantiser = Quantiser(bits=bits) if quantiser is None else quantiser
        if not isinstance(self.quantiser, Quantiser) or self.quantiser.bits != bits:
            raise InvalidInputError("the quantiser must be a Quantiser with the same number of bits")
        self.looks = looks
        self._roles: tuple[Querier, Server] | None = None

    def run(self, answers: Any) -> Wins:
        """The classes (n, C) that attain the minimum of measures (Q, n, C) in [0, 1]; NaN is a missing class.

        There may be fewer clients than ``n_clients``: the others did not answer.
        """
        table = checked_measures(answers)
        wins = self.run_quantised(self.quantiser.quantise(table))
        for shift in shifts(self.looks):
            tied = np.flatnonzero(wins.sum(axis=1) > 1)
            if not tied.size:
                break
            wins[tied] &= self.run_quantised(self.quantiser.quantise(table[:, tied], shift))
        return wins

    def run_quantised(self, values: Any) -> Wins:
        """The same for whole numbers in 0 ... 2^bits - 1, or -1 for a class that a client lacks."""
        numbers = whole_numbers(values)
        limits = self.parameters
        if (
            numbers.ndim != 3
            or not 0 < len(numbers) <= limits.n_clients
            or numbers.shape[2] != limits.n_classes
        ):
            raise InvalidInputError(
                "answers must have the shape (clients, rows, classes), with at most "
                f"{limits.n_clients} clients and {limits.n_classes} classes"
            )
        if not numbers.shape[1]:
            return np.zeros((0, limits.n_classes), dtype=bool)
        flat = check_quantised(numbers.reshape(-1, limits.n_classes), limits.n_classes, 2**limits.bits)
        checked = flat.reshape(numbers.shape)
        if self.mode == "clear":
            return clear_argmin(checked)
        return self._simulated(checked) if self.mode == "simulate" else self._encrypted(checked)

    def _simulated(self, numbers: NDArray[np.int64]) -> Wins:
        found = []
        for layout, rows in layouts_of(self.parameters, numbers.shape[1]):
            n_rows = rows.stop - rows.start
            slots = simulate(numbers[:, rows], layout, self.parameters)
            found.append(attained(slots, layout, n_rows, PLAIN_MODULUS)[0])
        return np.concatenate(found)

    def _encrypted(self, numbers: NDArray[np.int64]) -> Wins:
        if self._roles is None:
            limits = self.parameters
            querier = Querier(limits.n_clients, limits.n_classes, limits.bits)
            self._roles = querier, Server(querier.evaluation_keys(check=False))  # every result is checked
        querier, server = self._roles
        key = querier.public_key()
        clients = [Client(key, f"client-{i}") for i in range(len(numbers))]
        at_once = (
            self.parameters.degree // self.parameters.n_values
        )  # one ciphertext, so that any number fits
        found = []
        for start in range(0, numbers.shape[1], at_once):
            rows = numbers[:, start : start + at_once]
            messages = (each.encrypt(own, "query") for each, own in zip(clients, rows, strict=True))
            found.append(querier.decrypt(server.aggregate(messages)))
        return np.concatenate(found)


def clear_argmin(numbers: NDArray[np.int64]) -> Wins:
    """Plain minima over clients and classes; what is missing attains nothing."""
    present = np.where(numbers == MISSING, np.iinfo(np.int64).max, numbers)
    best = present.min(axis=0)
    return np.asarray((best == best.min(axis=1, keepdims=True)) & (best < np.iinfo(np.int64).max))
