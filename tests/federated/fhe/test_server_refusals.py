"""What site and server refuse: wrong messages, wrong names, and more rows than memory holds."""

from __future__ import annotations

import numpy as np
import pytest

from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.fhe import Client
from onefold.federated.fhe import server as server_module
from onefold.federated.fhe.messages import EncryptedAnswers
from onefold.federated.fhe.parameters import choose


def test_site_counts_once_and_only_for_its_query(small) -> None:
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


def test_no_answers_and_more_sites_than_the_keys_allow_are_refused(small) -> None:
    values = np.zeros((4, 1, 4), dtype=int)
    with pytest.raises(MessageError, match="more sites"):
        small.server.aggregate(small.messages(values))
    with pytest.raises(MessageError, match="no site"):
        small.server.aggregate([])


def test_claimed_rows_that_were_not_sent_are_refused(small) -> None:
    (message,) = small.messages(np.zeros((1, 1, 4), dtype=int))
    boast = EncryptedAnswers(**{**message.__dict__, "n_rows": 1_000_000})
    with pytest.raises(MessageError, match="size"):
        small.server.aggregate([boast])
    for n_rows in (0, -1, 1_000_000, 2.5):
        with pytest.raises(InvalidInputError):
            small.server.tally("q1", n_rows)


def test_impossible_rows_names_and_answers_are_refused(small) -> None:
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


def test_values_out_of_range_are_refused_by_the_site(small) -> None:
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


def test_answers_that_do_not_fit_into_memory_are_refused_at_the_start(small, monkeypatch) -> None:
    needed = small.querier.parameters.message_size(5)
    monkeypatch.setattr("onefold.federated.fhe.server._free_memory", lambda: needed - 1)
    with pytest.raises(InvalidInputError, match="GiB of memory"):
        small.server.tally("q1", 5)
    for enough in (needed, None):  # None: the system does not tell
        monkeypatch.setattr("onefold.federated.fhe.server._free_memory", lambda enough=enough: enough)
        small.server.tally("q1", 5)
    # With two digits the messages of all sites are kept.
    two = choose(200, 3, 16)
    monkeypatch.setattr("onefold.federated.fhe.server._free_memory", lambda: 199 * two.message_size(1))
    with pytest.raises(InvalidInputError, match="200 sites at 16 bits"):
        server_module._check_memory(two, 1)


def test_free_memory_is_read_or_unknown(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(server_module, "MEMINFO", tmp_path / "none")
    assert (
        server_module._free_memory() is None or server_module._free_memory() > 2**20
    )  # what the machine has
    (tmp_path / "some").write_text("MemTotal: 9 kB\nMemAvailable:     7 kB\n")
    monkeypatch.setattr(server_module, "MEMINFO", tmp_path / "some")
    assert server_module._free_memory() == 7 * 1024
