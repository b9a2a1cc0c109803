"""The server's role in an encrypted query: it has evaluation keys only, computes, and learns nothing."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from typing import Any, TypeVar

from onefold._base.validation import Whole, check_parameter
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.fhe.circuit import Layout, check_marks, pads, pick, second_pass, zero_test
from onefold.federated.fhe.messages import (
    MAX_BYTES,
    MAX_ROWS,
    EncryptedAnswers,
    EncryptedResult,
    EvaluationKeys,
)
from onefold.federated.fhe.parameters import BASE_PRIMES, Parameters, ciphertext_size
from onefold.federated.fhe.seal import (
    Cipher,
    Ciphertexts,
    PlaneSums,
    contexts_for,
    flood,
    pack_planes,
    read_ciphertext,
    reading,
)
from onefold.federated.messages import check_name

__all__ = ["FACTOR_BYTES", "Server", "Tally"]

FACTOR_BYTES = 4
MEMINFO = Path("/proc/meminfo")

R = TypeVar("R")


class Server:
    """The server of encrypted queries, for the querier whose evaluation keys it has.

    It adds the sites' encrypted answers and computes which classes attain the minimum, without being able to
    read any of them or the result.

    Parameters
    ----------
    keys : EvaluationKeys or bytes
        What the querier sent.
    n_jobs : int, default=1
        Processes for queries that fill more than one ciphertext.

    Attributes
    ----------
    parameters : Parameters
        Ring and primes, which follow from the keys.

    See Also
    --------
    Client : Encrypts the answers of a site.
    Querier : Makes the keys and decrypts the result.

    References
    ----------
    Document 004, eq. 106.

    Examples
    --------
    >>> from onefold.federated.fhe import Client, Querier, Server
    >>> querier = Querier(n_clients=2, n_classes=3)
    >>> key = querier.public_key()
    >>> server = Server(querier.evaluation_keys())
    >>> north = Client(key, "north").encrypt([[9, 5, 7]], "q1")
    >>> south = Client(key, "south").encrypt([[4, 8, 4]], "q1")
    >>> querier.decrypt(server.aggregate([north, south]))
    array([[ True, False,  True]])
    """

    def __init__(self, keys: EvaluationKeys | bytes, n_jobs: int = 1) -> None:
        check_parameter("n_jobs", n_jobs, Whole(1))
        self.n_jobs = n_jobs
        self.keys = EvaluationKeys.of(keys)
        self.parameters = self.keys.parameters
        self.contexts = contexts_for(self.parameters)
        full = self.contexts.full.context
        with reading("the evaluation keys"):
            self._encryptor = self.contexts.seal.Encryptor(full, full.from_public_str(self.keys.key))
            pairs: list[tuple[Any, Any]] = [
                (
                    chain.context.from_relin_str(relin),
                    chain.context.from_galois_str(galois) if galois else None,
                )
                for chain, (relin, galois) in zip(self.contexts.chains, self.keys.sections, strict=True)
            ]
        for (_, galois), steps in zip(pairs, self.parameters.rotations, strict=True):
            # A rotation by s slots is the automorphism x -> x^(3^s) of the ring; its key is named by 3^s.
            if not all(galois.has_key(pow(3, step, 2 * self.parameters.degree)) for step in steps):
                raise MessageError("the evaluation keys lack a rotation that the setting needs")
        self.engine = Ciphertexts(self.contexts, pairs)

    def tally(self, query_id: str, n_rows: int) -> Tally:
        """Begin to count the answers to one query.

        Parameters
        ----------
        query_id : str
            Name of the query.
        n_rows : int
            Rows of the query.

        Returns
        -------
        Tally
            An empty count, to which each site's message is added as it comes.
        """
        return Tally(self, query_id, n_rows)

    def aggregate(self, answers: Iterable[EncryptedAnswers | bytes]) -> EncryptedResult:
        """Compute the result from the messages of all sites that answered one query.

        Parameters
        ----------
        answers : iterable of EncryptedAnswers or bytes
            One message from each site.

        Returns
        -------
        EncryptedResult
            The message to the querier.

        Raises
        ------
        MessageError
            If there is no message, or one of them cannot be counted.
        """
        if isinstance(answers, bytes) or not isinstance(answers, Iterable):
            raise InvalidInputError("answers must be a list of messages, one from each site")
        tally: Tally | None = None
        for each in answers:
            message = EncryptedAnswers.of(each)
            if tally is None:
                _check_size(message, self.parameters.message_size(message.n_rows))
                tally = self.tally(message.query_id, message.n_rows)
            tally.add(message)
        if tally is None:
            raise MessageError("no site answered")
        return tally.result()

    def finish(self, result: Cipher, layout: Layout, n_rows: int) -> bytes:
        """Hide other slots and how the result was computed, and make the result small.

        Parameters
        ----------
        result : Cipher
            One ciphertext as the circuit gives it.
        layout : Layout
            Its layout.
        n_rows : int
            Rows that it holds.

        Returns
        -------
        bytes
            One part of the content of an :class:`~onefold.federated.fhe.messages.EncryptedResult`.
        """
        padded = self.engine.shift_slots(result, pads(layout, n_rows))
        zero = self._encryptor.encrypt_zero(self.contexts.full.levels[BASE_PRIMES])
        primes = self.contexts.primes[:BASE_PRIMES]
        flooded = self.engine.add_errors(
            padded,
            read_ciphertext(zero.to_string()),
            flood(self.parameters.flood_bits, self.parameters.degree, primes),
        )
        small = self.engine.drop(flooded, 1)
        packed = pack_planes(read_ciphertext(small.inner.to_string()), primes[:1])
        return small.factor.to_bytes(FACTOR_BYTES, "little") + packed


class Tally:
    """The answers to one query, counted as they come.

    Measures of one digit are added up at once: memory for one message, however many sites there are. Those of
    two digits (16 bits) are kept until all are there.

    Parameters
    ----------
    server : Server
        The server that computes; :meth:`Server.tally` makes the tally.
    query_id : str
        Name of the query.
    n_rows : int
        Rows of the query. What would not fit into free memory is refused at once.

    Attributes
    ----------
    clients : set of str
        Names of the sites counted so far.

    See Also
    --------
    Server.aggregate : The same in one call, if all messages are there.

    Examples
    --------
    >>> from onefold.federated.fhe import Client, Querier, Server
    >>> querier = Querier(n_clients=3, n_classes=2)
    >>> tally = Server(querier.evaluation_keys()).tally("q1", n_rows=1)
    >>> tally.add(Client(querier.public_key(), "north").encrypt([[9, 5]], "q1"))
    >>> tally.clients
    {'north'}
    >>> querier.decrypt(tally.result())
    array([[False,  True]])
    """

    def __init__(self, server: Server, query_id: str, n_rows: int) -> None:
        self._server = server
        check_parameter("n_rows", n_rows, Whole(1))
        # Before any memory is set aside for them.
        if n_rows > MAX_ROWS or server.parameters.message_size(n_rows) > MAX_BYTES:
            raise InvalidInputError("so many rows do not fit into one message: ask in parts")
        _check_memory(server.parameters, n_rows)
        self.query_id, self.n_rows = check_name("a query id", query_id), n_rows
        self.clients: set[str] = set()
        self._parts = [
            _SiteAnswers(server.engine, layout, rows.stop - rows.start)
            for layout, rows in server.parameters.layouts(n_rows)
        ]

    def add(self, answers: EncryptedAnswers | bytes) -> None:
        """Count one site's message.

        Parameters
        ----------
        answers : EncryptedAnswers or bytes
            What the site sent.

        Raises
        ------
        MessageError
            If the message is damaged, of another key or query, or the site has been counted already.
        """
        message = EncryptedAnswers.of(answers)
        self._check(message)
        view, start = memoryview(message.content), 0
        for part in self._parts:
            part.add(view[start : start + part.size])
            start += part.size
        self.clients.add(message.client)

    def _check(self, message: EncryptedAnswers) -> None:
        keys = self._server.keys
        if message.setting != keys.setting:
            raise MessageError("the answers were encrypted for another key or another setting")
        if message.query_id != self.query_id or message.n_rows != self.n_rows:
            raise MessageError("the answers belong to another query")
        if message.client in self.clients:
            raise MessageError("this site has answered already")
        if len(self.clients) == keys.n_clients:
            raise MessageError("more sites answer than the keys are made for")
        _check_size(message, sum(part.size for part in self._parts))

    def result(self) -> EncryptedResult:
        """Compute the result from the sites counted so far.

        Returns
        -------
        EncryptedResult
            The message to the querier.
        """
        parts = _in_processes(lambda i: self.finish(i, self.bare(i)), len(self._parts), self._server.n_jobs)
        return self.message(parts)

    def bare(self, index: int) -> Cipher:
        """Compute one ciphertext of the result, exact but not yet fit to leave the server.

        Parameters
        ----------
        index : int
            Number of the ciphertext.

        Returns
        -------
        Cipher
            The ciphertext before :meth:`finish`.
        """
        if not self.clients:
            raise MessageError("no site answered")
        return self._parts[index].picked()

    def finish(self, index: int, bare: Cipher) -> bytes:
        """Hide everything in one ciphertext of the result except the answer.

        Parameters
        ----------
        index : int
            Number of the ciphertext.
        bare : Cipher
            What :meth:`bare` gave.

        Returns
        -------
        bytes
            One part for :meth:`message`.
        """
        part = self._parts[index]
        return self._server.finish(bare, part.layout, part.n_rows)

    def message(self, parts: list[bytes]) -> EncryptedResult:
        """Join all ciphertexts of the result.

        Parameters
        ----------
        parts : list of bytes
            What :meth:`finish` gave for each ciphertext.

        Returns
        -------
        EncryptedResult
            The message to the querier.
        """
        setting = self._server.keys.setting
        return EncryptedResult(*setting, self.query_id, self.n_rows, len(self.clients), b"".join(parts))


# --- what is kept of the messages -------------------------------------------------------------------------


class _SiteAnswers:
    """The sites' answers about the rows of one ciphertext of the result.

    What is of one digit is added over the sites at once. Of two digits the thermometers of the high ones are,
    and the rest is kept site by site.
    """

    def __init__(self, engine: Ciphertexts, layout: Layout, n_rows: int) -> None:
        self.engine, self.layout, self.n_rows = engine, layout, n_rows
        self.parameters = parameters = engine.contexts.parameters
        self.n_answered = 0
        counts = parameters.message_primes(layout)
        self._primes = [engine.contexts.primes[:n] for n in counts]
        self._sizes = [ciphertext_size(parameters.prime_bits[:n], parameters.degree) for n in counts]
        self.size = sum(self._sizes)
        added = self._primes if parameters.digits == 1 else self._primes[:1]
        self._sums = [PlaneSums(primes, parameters.degree) for primes in added]
        self._kept: list[bytes] = []

    def _cut(self, data: bytes | memoryview) -> list[memoryview]:
        view = memoryview(data)
        stops = accumulate(self._sizes)
        return [view[stop - size : stop] for size, stop in zip(self._sizes, stops, strict=True)]

    def add(self, data: memoryview) -> None:
        """Count one more site."""
        for total, part in zip(self._sums, self._cut(data), strict=False):
            total.add(part)
        if self.parameters.digits > 1:
            self._kept.append(bytes(data))
        self.n_answered += 1

    def _sent(self) -> Iterator[tuple[Cipher, Cipher, list[Cipher]]]:
        for data in self._kept:
            hot, low, *marks = (
                self.engine.fresh_sum(PlaneSums(primes, self.parameters.degree).add(part).total(), 1)
                for part, primes in zip(self._cut(data)[1:], self._primes[1:], strict=True)
            )
            yield hot, low, marks

    def picked(self) -> Cipher:
        """Return the summands of the answer: exact, but not fit to leave the server."""
        counts, *marks = (self.engine.fresh_sum(each.total(), self.n_answered) for each in self._sums)
        n_clients = self.parameters.n_clients
        if self.parameters.digits == 1:
            return pick(self.engine, self.layout, zero_test(self.engine, n_clients, counts), marks)
        below, marks = second_pass(self.engine, self.layout, n_clients, counts, self._sent())
        checks = check_marks(self.layout, self.n_rows, self.n_answered)
        marks = [
            self.engine.shift_slots(mark, check) if check.any() else mark
            for mark, check in zip(marks, checks, strict=True)
        ]
        return pick(self.engine, self.layout, below, marks)


def _check_size(message: EncryptedAnswers, size: int) -> None:
    if len(message.content) != size:
        raise MessageError("the size of the answers does not fit their number of rows")


# --- memory and processes ---------------------------------------------------------------------------------


def _check_memory(parameters: Parameters, n_rows: int) -> None:
    """Refuse what would not fit: with two digits the messages of all sites are kept."""
    needed = (1 if parameters.digits == 1 else parameters.n_clients) * parameters.message_size(n_rows)
    free = _free_memory()
    if free is not None and needed > free:
        raise InvalidInputError(
            f"the answers of {parameters.n_clients} sites at {parameters.bits} bits take about "
            f"{needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} are free: ask fewer rows at once, or "
            "use fewer bits"
        )


def _free_memory() -> int | None:
    """Return the memory available without swapping, else all the machine has, else None."""
    try:
        for line in MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


_work: Callable[[int], object] | None = None


def _in_processes(work: Callable[[int], R], count: int, n_jobs: int) -> list[R]:
    """Return ``work(0) ... work(count - 1)``, computed in up to ``n_jobs`` processes.

    Processes, because SEAL's binding keeps the interpreter lock. They are forked, so that keys and sums,
    which are large, are shared and not copied. Where a system cannot fork, one process does all the work.
    """
    n_jobs = min(n_jobs, count)
    if n_jobs <= 1 or "fork" not in multiprocessing.get_all_start_methods():
        return [work(index) for index in range(count)]
    context = multiprocessing.get_context("fork")
    with context.Pool(n_jobs, initializer=_begin, initargs=(work,)) as pool:
        return pool.map(_run, range(count), chunksize=1)  # type: ignore[arg-type]


def _begin(work: Callable[[int], object]) -> None:
    global _work
    _work = work


def _run(index: int) -> object:
    if _work is None:
        raise AssertionError("a worker begins before it runs")
    return _work(index)
