"""``python -m benchmarks.encrypted_setting Q C bits``: one encrypted federation, in a process of its own.

All three roles play here, one after the other, each with its own clock. Every site encrypts a message of
its own (the same message twice would not have the noise of two sites), and every answer is compared with
the plain one.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from onefold.federated.fhe import Client, MeasureMap, Querier, Server
from onefold.federated.fhe.argmin import clear_argmin
from onefold.federated.fhe.messages import EncryptedResult

LONE_QUERIES = 3


def clocked(function: Callable[[], Any]) -> tuple[Any, float, float]:
    """What a function returns, and the processor and wall seconds it took, children included."""
    wall, cpu = time.perf_counter(), _cpu()
    found = function()
    return found, _cpu() - cpu, time.perf_counter() - wall


def _cpu() -> float:
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, whose))


def answers(n_clients: int, n_rows: int, n_classes: int, bits: int) -> np.ndarray:
    """Made-up measures, some rows with ties."""
    rng = np.random.default_rng(0)
    values = MeasureMap(bits).fine(rng.beta(1, 3, (n_clients, n_rows, n_classes)))
    values[:, ::5] //= 2 ** (bits - 3)
    return values


def ask(querier: Querier, server: Server, values: np.ndarray) -> dict[str, Any]:
    """One query of all rows: seconds of every role, bytes, and whether the answer is right."""
    public, n_rows = querier.public_key(), values.shape[1]
    tally = server.tally("q", n_rows)
    sending = adding = added = 0.0
    for index, each in enumerate(values):
        client = Client(public, f"site-{index}")
        message, cpu, _ = clocked(lambda c=client, e=each: c.encrypt(e, "q").to_bytes())
        sending += cpu
        _, cpu, wall = clocked(lambda m=message: tally.add(m))
        adding, added = adding + cpu, added + wall
    result, computing, computed = clocked(tally.result)
    found, reading, read = clocked(lambda: querier.decrypt(result.to_bytes()))
    server.n_jobs = 2
    _, _, computed_by_two = clocked(tally.result)
    server.n_jobs = 1
    return {
        "rows": n_rows,
        "right": bool(np.array_equal(found, clear_argmin(values))),
        "client_cpu": sending / len(values) / n_rows,
        "server_cpu": (adding + computing) / n_rows,
        "querier_cpu": reading / n_rows,
        "wall": (added + computed + read) / n_rows,
        "wall_two_processes": (added + computed_by_two + read) / n_rows,
        "message_bytes": len(message),
        "bytes_per_scalar": len(message) / n_rows / values.shape[2],
        "result_bytes": _size(result),
    }


def _size(result: EncryptedResult) -> int:
    return len(result.to_bytes())


def measure(n_clients: int, n_classes: int, bits: int) -> dict[str, Any]:
    """Keys, a lone query (the median of three), and two ciphertexts full of queries."""
    querier, own, _ = clocked(lambda: Querier(n_clients, n_classes, bits))
    keys, made, _ = clocked(lambda: querier.evaluation_keys(check=False))
    server, opened, _ = clocked(lambda: Server(keys))
    chosen = querier.parameters
    lone = [ask(querier, server, answers(n_clients, 1, n_classes, bits)) for _ in range(LONE_QUERIES)]
    alone = sorted(lone, key=lambda figures: figures["server_cpu"])[LONE_QUERIES // 2]
    alone["right"] = all(figures["right"] for figures in lone)
    batch = 2 * 2 * chosen.row // chosen.n_values
    return {
        "setting": [n_clients, n_classes, bits],
        "degree": chosen.degree,
        "modulus_bits": chosen.modulus_bits,
        "flood_bits": chosen.flood_bits,
        "key_cpu": own + made,
        "server_start_cpu": opened,
        "public_key_bytes": len(querier.public_key().to_bytes()),
        "evaluation_key_bytes": len(keys.to_bytes()),
        "alone": alone,
        "batched": ask(querier, server, answers(n_clients, batch, n_classes, bits)),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


if __name__ == "__main__":
    print(json.dumps(measure(*map(int, sys.argv[1:4]))))
