"""A federation in one round against gradient heads on the same features: bytes, seconds, growth, memory.

Bytes are those of real messages; the heads' are their parameters, without any wrapping. Once trained, a head
answers at no cost in bytes and in microseconds: what it pays for is training, and training again whenever a
site comes or must be forgotten. Rows that say what a query costs therefore have no goal: a head wins them.
"""

import time
from pathlib import Path
from tempfile import TemporaryDirectory

from threadpoolctl import threadpool_limits

from benchmarks import federation_flower, federation_growth, federation_latency
from benchmarks.data import QUICK, Sizes
from benchmarks.federation_world import CLIENTS, Heads, World, heads, member, world
from benchmarks.timing import Row, best
from onefold.federated import LocalModel
from onefold.federated.messages import Query


def bytes_sent(found: World, trained: Heads) -> list[Row]:
    """What travels to join and to ask, once."""
    query = Query("q", found.X[:1])
    asked = len(query.to_bytes()) * CLIENTS
    answered = sum(len(model.answer(query, "site").to_bytes()) for model in found.members)
    joining = sum(len(model.profile("site").to_bytes()) for model in found.members)
    models = sum(map(_file_size, found.members))
    rows = []
    for name, (head, training) in trained.items():
        training_bytes = 2 * head.n_bytes * training.rounds * min(training.clients_per_round, CLIENTS)
        details = {"head_bytes": training_bytes, "rounds": training.rounds, "sites": CLIENTS}
        rows += [
            Row(
                f"bytes to join, {CLIENTS} sites: FedAvg, {name} / profiles (queries travel)",
                training_bytes / joining,
                ">= 100",
                {**details, "our_bytes": joining},
            ),
            Row(
                f"bytes to join, {CLIENTS} sites: FedAvg, {name} / models (models travel)",
                training_bytes / models,
                ">= 1",
                {**details, "our_bytes": models},
            ),
            Row(
                f"single queries to {CLIENTS} sites that send as much as FedAvg, {name}, in training",
                training_bytes / (asked + answered),
                None,  # how many queries a federation will get depends on its use
                {**details, "bytes_down": asked, "bytes_up": answered},
            ),
        ]
    return rows


def _file_size(model: LocalModel) -> int:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        return sum(file.stat().st_size for file in Path(folder).iterdir())


def seconds_spent(sizes: Sizes, found: World, trained: Heads) -> list[Row]:
    """Processor time for one more site to join, and for one query; that of a head is counted so too."""
    largest = max(found.owners, key=len)
    join = best(lambda: member(found.X[largest], found.y[largest]), clock=time.process_time)
    queries = found.X[: sizes.queries]
    ask = best(lambda: found.server.predict(queries), 2, time.process_time) / len(queries)
    rows = []
    for name, (head, _) in trained.items():
        predict = best(lambda h=head: h.predict(queries), clock=time.process_time) / len(queries)
        rows += [
            Row(
                f"seconds for a site to join: FedAvg, {name}, trained again / the largest site fits",
                head.seconds / join,
                ">= 10",
                {"head_seconds": head.seconds, "seconds": join, "rows": len(largest)},
            ),
            Row(
                f"seconds per query, {len(queries)} at once, {CLIENTS} sites in one process: ours / {name}",
                ask / predict,
                None,  # one product with C columns against one with all rows of all sites
                {"head_seconds": predict, "seconds": ask},
            ),
        ]
    return rows


def rows(sizes: Sizes) -> list[Row]:
    """All of them."""
    found = world(sizes)
    with threadpool_limits(1, user_api="blas"):  # processor seconds: threads that wait for others count, too
        trained = heads(found)
        seconds = seconds_spent(sizes, found, trained)
    return [
        *bytes_sent(found, trained),
        *seconds,
        *federation_growth.growth(sizes),
        *federation_growth.cluster_growth(sizes),
        *federation_growth.memory(sizes),
        *federation_latency.in_process(found),
        *federation_flower.rows(sizes == QUICK, trained),
    ]
