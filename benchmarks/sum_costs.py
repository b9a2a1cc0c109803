"""Encrypted sums: processor time and bytes of every role, beside plain sums.

A plain site draws the same noise and packs the numbers into a record; a plain server adds them. Holders are
two of two (one of whom may be the server itself) and three of five. A site's work does not depend on the
other sites except for the size of its noise, so one site is timed. Server, holders and querier are timed with
the messages of all sites, which are made as they are needed: the messages of 10^6 numbers and 100 sites are
0.8 to 2.4 GB, of which holders keep theirs in memory.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.data import QUICK, Sizes
from benchmarks.timing import Row, best
from onefold._base.records import pack, unpack
from onefold.federated import EncryptedSum, HolderKey, SumBlock, SumContract, SumHolder
from onefold.federated.secret.noise import draw_shares
from onefold.privacy import Guarantee
from onefold.privacy.calibration import mu_of

LARGEST, CHANGE = 2**30, 2.0**20
# Name, number of holders, threshold.
WAYS = (("two of two holders", 2, 2), ("three of five holders", 5, 3))


def rows(sizes: Sizes) -> list[Row]:
    """Costs for two lengths and two numbers of sites."""
    lengths, sites = ((10**4,), (3,)) if sizes is QUICK else ((10**5, 10**6), (10, 100))
    found = []
    for length in lengths:
        for n_sites in sites:
            vector = np.random.default_rng(0).integers(-LARGEST, LARGEST, length)
            plain = Plain(vector, n_sites)
            found += [row for way in WAYS for row in cost(plain, *way)]
    return found


def _cpu(function: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    return function(), time.process_time() - start


def agreed(keys: list[HolderKey], length: int, n_sites: int, threshold: int) -> SumContract:
    """A contract about whole numbers up to 2**30, epsilon 1 per record."""
    mu = mu_of(1.0, 1e-5)
    pair = (1.0, 1e-5)
    promise = Guarantee("record", pair, pair, 1, neighbours="add-remove", clipped=True, mu=mu)
    block = SumBlock("numbers", length, LARGEST, CHANGE / mu * 1.000002, CHANGE)
    names = tuple(f"site{i}" for i in range(n_sites))
    holders = tuple(key.public for key in keys)
    return SumContract("round", holders, threshold, names, (block,), promise)


class Plain:
    """Sites that send their numbers with noise to a server that adds them."""

    def __init__(self, vector: Any, n_sites: int) -> None:
        self.vector, self.n_sites = vector, n_sites
        contract = agreed([HolderKey.new("holder")], len(vector), n_sites, 1)

        def site() -> bytes:
            noise = draw_shares(contract.blocks, contract.least_adding)
            return pack("vector", 1, {}, {"vector": vector + noise})

        frame = site()
        self.site, self.bytes = best(site, 3, time.process_time), len(frame)

        def server() -> Any:
            total = np.zeros(len(vector), dtype=np.int64)
            for _ in range(n_sites):
                total += unpack(frame, "vector", 1)[1]["vector"]
            return total

        self.server = best(server, 2, time.process_time)


def cost(plain: Plain, name: str, n_holders: int, threshold: int) -> list[Row]:
    """Every role of one way to sum, against plain sums."""
    keys = [HolderKey.new(f"holder{i}") for i in range(n_holders)]
    total = EncryptedSum(agreed(keys, len(plain.vector), plain.n_sites, threshold))

    def contribute(site: str = "site0") -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            return total.contribute(site, plain.vector, folder)

    seconds, size = best(contribute, 3, time.process_time), len(contribute())
    details: dict[str, Any] = {
        "site seconds": seconds,
        "plain site seconds": plain.site,
        "site bytes": size,
        "plain site bytes": plain.bytes,
        **others(total, keys, contribute),
        "plain server seconds": plain.server,
    }
    title = f"{len(plain.vector)} numbers, {plain.n_sites} sites, {name}"
    return [
        Row(f"{title}: site's processor time / plain", seconds / plain.site, None, details),
        Row(f"{title}: site's bytes / plain", size / plain.bytes, None, {}),
    ]


def others(total: EncryptedSum, keys: list[HolderKey], contribute: Callable[[str], bytes]) -> dict[str, Any]:
    """Server, busiest holder and querier; making the messages is not counted."""
    making = 0.0

    def messages() -> Iterator[bytes]:
        nonlocal making
        for site in total.contract.sites:
            message, spent = _cpu(lambda site=site: contribute(site))
            making += spent
            yield message

    routed, server = _cpu(lambda: total.route(messages()))
    found: dict[str, Any] = {"server seconds": server - making}
    spent: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as work:
        holders = [SumHolder(total, key, work) for key in keys]
        signatures, answers = [], []
        for holder in holders:
            signature, spent[holder.name] = _cpu(lambda holder=holder: holder.sign(routed[holder.name]))
            signatures.append(signature)
        for holder in holders:
            answer, more = _cpu(lambda holder=holder: holder.answer(routed[holder.name], signatures))
            answers.append(answer)
            spent[holder.name] += more
    found |= {
        "busiest holder seconds": max(spent.values()),
        "busiest holder bytes": max(sum(map(len, envelopes)) for envelopes in routed.values()),
        "answer bytes": len(answers[0]),
    }
    _, found["querier seconds"] = _cpu(lambda: total.open(answers))
    return found
