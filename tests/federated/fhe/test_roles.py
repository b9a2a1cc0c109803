"""Three roles against plain minima: extremes, ties, missing classes, clients that drop out, wrong keys."""

from __future__ import annotations

import stat
from dataclasses import replace

import numpy as np
import pytest

from onefold._base.frames import pack_frame, unpack_frame
from onefold.exceptions import DecryptionError, FileFormatError, InvalidInputError, MessageError
from onefold.federated.fhe import Client, EncryptedArgmin, Querier, Server
from onefold.federated.fhe import server as server_module
from onefold.federated.fhe.argmin import clear_argmin
from onefold.federated.fhe.messages import EncryptedAnswers, EncryptedResult, PublicKey, from_bytes, to_bytes
from onefold.federated.fhe.parameters import choose


def _literal(values: np.ndarray) -> np.ndarray:
    """Number by number, as 004 eq. 106 says."""
    n_clients, n_rows, n_classes = values.shape
    wins = np.zeros((n_rows, n_classes), dtype=bool)
    for row in range(n_rows):
        found = [(values[q, row, c], c) for q in range(n_clients) for c in range(n_classes)]
        found = [(value, c) for value, c in found if value >= 0]
        for value, c in found:
            wins[row, c] |= value == min(found)[0]
    return wins


def _hard_rows(n_clients: int, n_classes: int, largest: int, n_random: int = 10) -> np.ndarray:
    """All equal at both ends and in between, one winner, ties of clients and classes, missing classes."""
    rng = np.random.default_rng(7)
    rows = [np.full((n_clients, n_classes), value) for value in (0, 1, largest // 2, largest)]
    one = np.full((n_clients, n_classes), largest)
    one[-1, -1] = largest - 1
    nobody = np.full((n_clients, n_classes), -1)
    lone = nobody.copy()
    lone[0, 0] = largest
    rows += [one, nobody, lone]
    rows += [rng.integers(0, largest + 1, (n_clients, n_classes)) for _ in range(n_random)]
    tied = rng.integers(0, 3, (n_random, n_clients, n_classes))
    absent = np.where(rng.random(tied.shape) < 0.4, -1, tied + 5)
    return np.concatenate([np.stack(rows), tied, absent]).transpose(1, 0, 2)


def test_every_kind_of_row(small) -> None:
    values = _hard_rows(3, 4, 255)
    result = small.server.aggregate(small.messages(values))
    assert np.array_equal(small.querier.decrypt(result), _literal(values))


def test_a_lone_query_and_a_few(small) -> None:
    values = _hard_rows(3, 4, 255)
    for n_rows in (1, 2, 3):
        result = small.server.aggregate(small.messages(values[:, 6 : 6 + n_rows]))
        assert np.array_equal(small.querier.decrypt(result), _literal(values[:, 6 : 6 + n_rows]))


def test_two_processes_answer_the_same(small) -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(0, 256, (2, 70, 4))  # two ciphertexts
    server = Server(small.keys, n_jobs=2)
    assert np.array_equal(small.querier.decrypt(server.aggregate(small.messages(values))), _literal(values))


def test_clients_that_drop_out_are_not_counted(small) -> None:
    values = _hard_rows(3, 4, 255, 4)
    messages = small.messages(values)
    result = small.server.aggregate([messages[2], messages[0]])
    assert result.n_answered == 2
    assert np.array_equal(small.querier.decrypt(result), _literal(values[[0, 2]]))


def test_a_client_counts_once_and_only_for_its_query(small) -> None:
    first, second, _ = small.messages(np.zeros((3, 2, 4), dtype=int))
    tally = small.server.tally("q1", 2)
    tally.add(first)
    for wrong in (first, *small.messages(np.zeros((1, 2, 4), dtype=int), "q2"), _shortened(second)):
        with pytest.raises(MessageError):
            tally.add(wrong)
    tally.add(second)
    assert tally.clients == {"c0", "c1"}


def _shortened(message: EncryptedAnswers) -> EncryptedAnswers:
    fields = {**message.__dict__, "content": message.content[:-1]}
    return EncryptedAnswers(**fields)


def test_more_clients_than_the_keys_are_made_for(small) -> None:
    values = np.zeros((4, 1, 4), dtype=int)
    with pytest.raises(MessageError, match="more sites"):
        small.server.aggregate(small.messages(values))
    with pytest.raises(MessageError, match="no site"):
        small.server.aggregate([])


def test_rows_that_were_not_sent_take_no_memory(small) -> None:
    (message,) = small.messages(np.zeros((1, 1, 4), dtype=int))
    boast = EncryptedAnswers(**{**message.__dict__, "n_rows": 1_000_000})
    with pytest.raises(MessageError, match="size"):
        small.server.aggregate([boast])
    for n_rows in (0, -1, 1_000_000, 2.5):
        with pytest.raises(InvalidInputError):
            small.server.tally("q1", n_rows)


def test_another_querier_reads_nothing(small) -> None:
    stranger = Querier(3, 4)
    result = small.server.aggregate(small.messages(np.zeros((3, 1, 4), dtype=int)))
    with pytest.raises(MessageError, match="another key"):
        stranger.decrypt(result)
    forged = EncryptedResult(**{**result.__dict__, "key_id": stranger.key_id})
    with pytest.raises(DecryptionError, match="noise"):
        stranger.decrypt(forged)
    with pytest.raises(MessageError, match="another key"):
        small.server.aggregate([Client(stranger.public_key(), "x").encrypt([[1, 2, 3, 4]], "q1")])


def test_a_result_that_leaves_a_client_out_unsaid_is_refused(small) -> None:
    result = small.server.aggregate(small.messages(np.zeros((2, 1, 4), dtype=int)))
    with pytest.raises(DecryptionError, match="check"):
        small.querier.decrypt(EncryptedResult(**{**result.__dict__, "n_answered": 3}))


def test_messages_survive_as_bytes_and_damage_is_refused(small) -> None:
    messages = [to_bytes(each) for each in small.messages(np.full((3, 1, 4), 9))]
    server = Server(to_bytes(small.keys))
    data = to_bytes(server.aggregate(messages))
    assert small.querier.decrypt(data).all()
    rng = np.random.default_rng(0)
    for place in rng.integers(0, len(data), 40):
        flipped = bytearray(data)
        flipped[place] ^= 1 << rng.integers(0, 8)
        with pytest.raises(MessageError):
            small.querier.decrypt(bytes(flipped))
    for length in (0, 10, 100, len(data) - 1):
        with pytest.raises(MessageError):
            small.querier.decrypt(data[:length])
    with pytest.raises(MessageError, match="kind"):
        from_bytes(PublicKey, data)
    with pytest.raises(MessageError, match="larger"):
        from_bytes(EncryptedResult, data, max_bytes=100)


def test_a_key_file_is_for_its_owner_only(small, tmp_path) -> None:
    path = tmp_path / "secret.key"
    small.querier.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    result = small.server.aggregate(small.messages(np.eye(3, 4, dtype=int)[:, None]))
    again = Querier.load(path)
    assert again.key_id == small.querier.key_id
    assert np.array_equal(again.decrypt(result), small.querier.decrypt(result))
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(FileFormatError):
        Querier.load(path)


@pytest.mark.parametrize(("n_clients", "n_classes", "bits"), [(1, 1, 8), (1, 3, 4), (2, 1, 8), (2, 15, 4)])
def test_the_smallest_federations(n_clients: int, n_classes: int, bits: int) -> None:
    values = _hard_rows(n_clients, n_classes, 2**bits - 1)
    argmin = EncryptedArgmin(n_clients, n_classes, bits)
    assert np.array_equal(argmin.run_quantised(values), _literal(values))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n_clients", "n_classes", "bits"),
    [(10, 10, 8), (5, 7, 10), (4, 3, 12), (200, 3, 8), (3, 100, 8), (2, 3, 16)],
)
def test_larger_federations(n_clients: int, n_classes: int, bits: int) -> None:
    values = _hard_rows(n_clients, n_classes, 2**bits - 1, 3)
    argmin = EncryptedArgmin(n_clients, n_classes, bits)
    assert np.array_equal(argmin.run_quantised(values), clear_argmin(values))


@pytest.mark.slow
def test_digits_that_tie_and_digits_that_do_not() -> None:
    """The high digits decide, or tie; a low digit that is smallest must not win on its own."""
    rng = np.random.default_rng(1)
    high, low = rng.integers(0, 3, (2, 3, 12, 4))
    values = 256 * high + low + np.array([0, 253])[rng.integers(0, 2, (3, 12, 4))]
    values[rng.random(values.shape) < 0.2] = -1
    found = EncryptedArgmin(3, 4, 16).run_quantised(values)
    assert np.array_equal(found, _literal(values))


def test_rows_beyond_one_message_are_asked_in_parts(monkeypatch) -> None:
    monkeypatch.setattr("onefold.federated.fhe.server.MAX_BYTES", choose(2, 2, 12).message_size(4))
    values = np.random.default_rng(5).integers(0, 4096, (2, 6, 2))  # four rows fill a ciphertext
    values[:, ::2] //= 1000
    assert np.array_equal(EncryptedArgmin(2, 2, 12).run_quantised(values), _literal(values))


def test_evaluation_keys_that_cannot_rotate_are_refused(small) -> None:
    relinearise = [part for part, _ in small.keys.sections()]
    sizes = [size for part in relinearise for size in (len(part), 0)]
    with pytest.raises(MessageError, match="rotate"):
        replace(small.keys, sizes=tuple(sizes), content=b"".join(relinearise))


def test_a_key_file_without_a_whole_setting_is_refused(small, tmp_path) -> None:
    path = tmp_path / "secret.key"
    small.querier.save(path)
    header, arrays = unpack_frame(path.read_bytes(), 2**28)
    path.write_bytes(pack_frame({**header, "setting": header["setting"][:3]}, arrays))
    with pytest.raises(FileFormatError):
        Querier.load(path)


def test_values_out_of_range_are_refused(small) -> None:
    client = Client(small.public, "c0")
    for wrong in (
        [[0, 1, 2, 256]],
        [[0, 1, 2, -2]],
        [[0, 1, 2]],
        [[0.0, 1.0, 2.0, 3.0]],
        [0, 1, 2, 3],
        [[0], []],
    ):
        with pytest.raises(InvalidInputError):
            client.encrypt(wrong, "q1")


def test_answers_that_do_not_fit_into_memory_are_refused_beforehand(small, monkeypatch) -> None:
    needed = small.querier.parameters.message_size(5)
    monkeypatch.setattr("onefold.federated.fhe.server._free_bytes", lambda: needed - 1)
    with pytest.raises(InvalidInputError, match="GiB of memory"):
        small.server.tally("q1", 5)
    for enough in (needed, None):  # None: the system does not tell
        monkeypatch.setattr("onefold.federated.fhe.server._free_bytes", lambda enough=enough: enough)
        small.server.tally("q1", 5)
    # With two digits the messages of all clients are kept.
    two = choose(200, 3, 16)
    monkeypatch.setattr("onefold.federated.fhe.server._free_bytes", lambda: 199 * two.message_size(1))
    with pytest.raises(InvalidInputError, match="200 sites at 16 bits"):
        server_module._check_memory(two, 1)


def test_free_memory_is_read_or_left_unsaid(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(server_module, "MEMINFO", tmp_path / "none")
    assert server_module._free_bytes() is None or server_module._free_bytes() > 2**20  # what the machine has
    (tmp_path / "some").write_text("MemTotal: 9 kB\nMemAvailable:     7 kB\n")
    monkeypatch.setattr(server_module, "MEMINFO", tmp_path / "some")
    assert server_module._free_bytes() == 7 * 1024


def test_impossible_numbers_of_rows_and_names_are_refused_at_once(small) -> None:
    for wrong in (10**30, 0, -1, "1", None, True, 1.5):
        with pytest.raises(InvalidInputError):
            small.server.tally("q1", wrong)
    for wrong in (None, "", 3, True, [], "a b\n"):
        with pytest.raises(ValueError):
            Client(small.public, wrong)
        with pytest.raises(ValueError):
            small.server.tally(wrong, 1)
    for wrong in (None, 3, float("nan"), b"abc", [], [None]):
        with pytest.raises(ValueError):
            small.server.aggregate(wrong)
    for wrong in (None, 3, True, b"x"):
        with pytest.raises(InvalidInputError):
            small.querier.save(wrong)
        with pytest.raises(InvalidInputError):
            Querier.load(wrong)


def test_the_largest_federation_with_most_clients_away() -> None:
    """The keys, polynomial and layout of 200 clients and 100 classes; the slow run has 200 that answer."""
    values = _hard_rows(4, 100, 255, 3)[:, -3:]
    assert np.array_equal(EncryptedArgmin(200, 100).run_quantised(values), clear_argmin(values))
