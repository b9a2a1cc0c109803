"""The server: evaluation keys only. It adds what the clients sent, computes on it, and learns nothing."""

from __future__ import annotations

from collections.abc import Iterable

from onefold._base.validation import check_whole_number
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.fhe._ciphertexts import Cipher, Ciphertexts
from onefold.federated.fhe._circuit import hidden
from onefold.federated.fhe._collecting import Runners, Sums
from onefold.federated.fhe._contexts import contexts_for, reading
from onefold.federated.fhe._flooding import flood
from onefold.federated.fhe._layout import Layout
from onefold.federated.fhe._memory import free_bytes
from onefold.federated.fhe._parameters import BASE_PRIMES, Parameters
from onefold.federated.fhe._processes import in_processes
from onefold.federated.fhe._shares import layouts_of, message_size
from onefold.federated.fhe._wire import pack_planes, read_ciphertext
from onefold.federated.fhe.messages import (
    MAX_BYTES,
    MAX_ROWS,
    EncryptedAnswers,
    EncryptedResult,
    EvaluationKeys,
    from_bytes,
)
from onefold.federated.messages import check_name

__all__ = ["FACTOR_BYTES", "Server", "Tally"]

FACTOR_BYTES = 4


class Server:
    """Computes the answer under encryption, for the querier whose evaluation keys it was given.

    Parameters
    ----------
    keys : EvaluationKeys or bytes
        What the querier sent.
    n_jobs : int
        Processes for queries that fill more than one ciphertext.
    """

    def __init__(self, keys: EvaluationKeys | bytes, n_jobs: int = 1) -> None:
        check_whole_number("n_jobs", n_jobs)
        self.n_jobs = n_jobs
        self.keys = keys if isinstance(keys, EvaluationKeys) else from_bytes(EvaluationKeys, keys)
        self.parameters = self.keys.parameters
        self.contexts = contexts_for(self.parameters)
        full = self.contexts.full.context
        with reading("the evaluation keys"):
            self._encryptor = self.contexts.seal.Encryptor(full, full.from_public_str(self.keys.key))
            self.engine = Ciphertexts(
                self.contexts,
                [
                    (
                        room.context.from_relin_str(relin),
                        room.context.from_galois_str(galois) if galois else None,
                    )
                    for room, (relin, galois) in zip(self.contexts.rooms, self.keys.sections(), strict=True)
                ],
            )

    def tally(self, query_id: str, n_rows: int) -> Tally:
        """An empty count of the answers to one query, to which each client's message is added as it comes."""
        return Tally(self, query_id, n_rows)

    def aggregate(self, answers: Iterable[EncryptedAnswers | bytes]) -> EncryptedResult:
        """The result from the messages of all clients that answered one query."""
        if isinstance(answers, bytes) or not isinstance(answers, Iterable):
            raise InvalidInputError("answers must be a list of messages, one from each client")
        tally: Tally | None = None
        for each in answers:
            message = each if isinstance(each, EncryptedAnswers) else from_bytes(EncryptedAnswers, each)
            if tally is None:
                if len(message.content) != message_size(self.parameters, message.n_rows):
                    raise MessageError("the answers do not have the size that their number of rows asks for")
                tally = self.tally(message.query_id, message.n_rows)
            tally.add(message)
        if tally is None:
            raise MessageError("no client answered")
        return tally.result()

    def finish(self, result: Cipher, layout: Layout, n_rows: int) -> bytes:
        """Hide other slots and the history of the result, and make it small."""
        hiding = self.engine.shift_slots(result, hidden(layout, n_rows))
        zero = self._encryptor.encrypt_zero(self.contexts.full.levels[BASE_PRIMES])
        primes = self.contexts.primes[:BASE_PRIMES]
        drowned = self.engine.add_errors(
            hiding,
            read_ciphertext(zero.to_string()).polynomials,
            flood(self.parameters.flood_bits, self.parameters.degree, primes),
        )
        small = self.engine.drop(drowned, 1)
        packed = pack_planes(read_ciphertext(small.inner.to_string()).polynomials, primes[:1])
        return small.factor.to_bytes(FACTOR_BYTES, "little") + packed


class Tally:
    """The answers to one query, counted as they come.

    Measures of one digit are added up at once: memory for one message, however many clients there are.
    Those of two digits have to be kept until all are there.
    """

    def __init__(self, server: Server, query_id: str, n_rows: int) -> None:
        self._server = server
        check_whole_number("n_rows", n_rows)
        # Before any memory is set aside for them.
        if n_rows > MAX_ROWS or message_size(server.parameters, n_rows) > MAX_BYTES:
            raise InvalidInputError("so many rows do not fit into one message: ask in parts")
        _check_memory(server.parameters, n_rows)
        self.query_id, self.n_rows = check_name("a query id", query_id), n_rows
        self.clients: set[str] = set()
        kind = Sums if server.parameters.digits == 1 else Runners
        self._shares = [
            (kind(server.engine, layout, rows.stop - rows.start), layout, rows)
            for layout, rows in layouts_of(server.parameters, n_rows)
        ]

    def add(self, answers: EncryptedAnswers | bytes) -> None:
        """Count one client's message, once."""
        message = answers if isinstance(answers, EncryptedAnswers) else from_bytes(EncryptedAnswers, answers)
        self._check(message)
        view, start = memoryview(message.content), 0
        for share, _, _ in self._shares:
            share.add(view[start : start + share.size])
            start += share.size
        self.clients.add(message.client)

    def _check(self, message: EncryptedAnswers) -> None:
        keys = self._server.keys
        if message.key_id != keys.key_id or message.parameters != self._server.parameters:
            raise MessageError("the answers were encrypted for another key or another setting")
        if message.query_id != self.query_id or message.n_rows != self.n_rows:
            raise MessageError("the answers belong to another query")
        if message.client in self.clients:
            raise MessageError("this client has answered already")
        if len(self.clients) == keys.n_clients:
            raise MessageError("more clients answer than the keys are made for")
        if len(message.content) != sum(share.size for share, _, _ in self._shares):
            raise MessageError("the answers do not have the size that their number of rows asks for")

    def result(self) -> EncryptedResult:
        """The answer to the query from the clients counted so far."""
        parts = in_processes(lambda i: self.finish(i, self.bare(i)), len(self._shares), self._server.n_jobs)
        return self.message(parts)

    def bare(self, index: int) -> Cipher:
        """One ciphertext of the result as the circuit gives it: exact, but not fit to leave the server."""
        if not self.clients:
            raise MessageError("no client answered")
        return self._shares[index][0].picked()

    def finish(self, index: int, bare: Cipher) -> bytes:
        """One ciphertext of the result with everything hidden but the answer."""
        _, layout, rows = self._shares[index]
        return self._server.finish(bare, layout, rows.stop - rows.start)

    def message(self, parts: list[bytes]) -> EncryptedResult:
        """All ciphertexts of the result as what is sent to the querier."""
        keys = self._server.keys
        return EncryptedResult(
            keys.n_clients,
            keys.n_classes,
            keys.bits,
            keys.key_id,
            self.query_id,
            self.n_rows,
            len(self.clients),
            b"".join(parts),
        )


def _check_memory(parameters: Parameters, n_rows: int) -> None:
    """Refuse what would not fit: with two digits the messages of all clients are kept."""
    needed = (1 if parameters.digits == 1 else parameters.n_clients) * message_size(parameters, n_rows)
    free = free_bytes()
    if free is not None and needed > free:
        raise InvalidInputError(
            f"the answers of {parameters.n_clients} clients at {parameters.bits} bits take about "
            f"{needed / 2**30:.1f} GiB of memory and {free / 2**30:.1f} are free: ask fewer rows at once, or "
            "use fewer bits"
        )
