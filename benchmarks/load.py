"""A federation under load: real processes over TLS, many queriers, sites that come and go, checked answers.

Queries are handed in at an even pace by many threads of one process, and each latency counts from when its
query was due. On the way a site joins, one leaves and returns, one is removed and let in again with a new
key. The answer to every query is compared with one recomputed from the models of the sites that it names, and
a site that was removed must not be named by any query that began afterwards. Then the same threads ask as
fast as they can, one query after another is asked alone, and a plain Flower app exchanges messages of the
same size. Everything ends by itself: the number of queries and the time are bounded.
"""

import resource
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.data import Sizes
from benchmarks.federation_flower import PATIENCE, _start, _wait
from benchmarks.load_plain import plain_rates
from benchmarks.load_processes import ProcessWatch
from benchmarks.timing import Row
from onefold.exceptions import OnefoldError
from onefold.federated import GlobalClassifier, LocalModel

FEATURES, CLASSES, SITE_ROWS = 64, 5, 300
QUERY_ROWS, POOL = 10, 200  # rows of one query, and different queries to draw from
IN_FLIGHT = 64  # at most so many queries of one querier travel in one message
TIMEOUT = 60.0
ALONE = 8  # queries asked one after another
FLAT, SETTLED = 1.05, 5.0  # memory is judged after so many minutes: before that processes still start
# When what happens, in parts of the whole time.
JOINS, LEAVES, RETURNS, REMOVED, BACK = 0.1, 0.25, 0.4, 0.55, 0.7


@dataclass(frozen=True)
class Plan:
    """How much load: defaults take about two minutes."""

    minutes: float = 1.0
    queries: int = 300
    sites: int = 3

    @property
    def seconds(self) -> float:
        return 60.0 * self.minutes

    @property
    def rate_seconds(self) -> float:
        """How long throughput is measured, by turns."""
        return min(60.0, max(10.0, self.seconds / 6.0))


@dataclass
class Tally:
    """What came of the queries so far."""

    latencies: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)  # seconds of the thread that asked
    wrong: int = 0
    partial: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    sites: Counter[str] = field(default_factory=Counter)  # answers used of each site
    lock: threading.Lock = field(default_factory=threading.Lock)


def rows(sizes: Sizes, plan: Plan | None = None) -> list[Row]:
    """Run the load and the plain Flower app; nothing where Flower is not installed."""
    plan = Plan() if plan is None else plan
    try:
        import flwr  # noqa: F401
    except ImportError:
        print("load: no Flower here (extra federated): left out", file=sys.stderr)
        return []
    if plan.sites < 3:
        raise OnefoldError("load: one site joins, one leaves and one is removed: give at least 3 (--sites)")
    start_up = _start_up_cpu()
    with TemporaryDirectory() as folder:
        world = World(Path(folder) / "federation", plan)
        try:
            measured = world.run()
        finally:
            world.close()
        settings = {
            "sites": plan.sites,
            "rows": QUERY_ROWS,
            "together": IN_FLIGHT,
            "features": FEATURES,
            "classes": CLASSES,
        }
        plain: dict[str, dict[str, float]] = {}
        try:
            plain = plain_rates(Path(folder), world.federation.folder, settings, plan.rate_seconds)
        except OnefoldError as error:
            _say(f"nothing beside it: {error}")
    return _rows(plan, measured, plain, start_up)


def _start_up_cpu() -> float:
    """Processor seconds of a new process until it could ask."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", "import onefold.federated.flower"], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


# --- the federation -----------------------------------------------------------------------------------------


class World:
    """Folders, models and running commands of one federation, and what its answers must be."""

    def __init__(self, root: Path, plan: Plan) -> None:
        from onefold.federated.flower import Federation, Site
        from onefold.federated.flower.keeping import model_of
        from onefold.federated.flower.processes import free_port

        self.root, self.plan = root, plan
        self.names = [f"site{number}" for number in range(1, plan.sites + 1)]
        port = free_port()
        self.federation = Federation.create(root, self.names, port=port, approval="anyone")
        self.folders = {name: root / "sites" / name for name in self.names}
        self.models: dict[str, LocalModel] = {}
        for number, name in enumerate(self.names):
            site = Site(self.folders[name]).fit(*_table(SITE_ROWS, number))
            site.configure(per_minute=10**9, total=10**12, querier_total=10**12)
            self.models[name] = LocalModel.load(model_of(site.folder, site.profile))
        self.pool = _table(POOL * QUERY_ROWS, 99)[0].reshape(POOL, QUERY_ROWS, FEATURES)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.expected: dict[tuple[str, ...], GlobalClassifier] = {}
        self.outside: dict[str, tuple[float, float]] = {}  # sites that were removed: from when, until when
        self.lock = threading.Lock()
        self.events: list[dict[str, Any]] = []

    def run(self) -> dict[str, Any]:
        """Start, load, and measure."""
        joiner = self.names[-1]
        self.running["server"] = _start("server", "--folder", str(self.federation.folder.root))
        _wait(lambda: self.federation.is_running)
        for name in self.names[:-1]:
            self.start(name)
        self.federation.wait_for(self.names[:-1], PATIENCE)
        watch = ProcessWatch(self.root, max(0.5, self.plan.seconds / 600.0))
        try:
            self.ask(0, 0.0, Tally())  # every site has answered once
            start, cpu = watch.now(), watch.cpu()
            steps = threading.Thread(target=self._come_and_go, args=(joiner,), daemon=True)
            steps.start()
            tally = Tally()
            seconds = self.load(tally)
            end = watch.now()
            steps.join(PATIENCE)
            load_cpu = _per_query(cpu, watch.cpu(), len(tally.latencies))
            growth = watch.growth(start, end)
            _say(f"{len(tally.latencies)} answers in {seconds:.0f} s, {tally.wrong} wrong")
            with suppress(OnefoldError):  # told as an event
                self.federation.wait_for(self.names, PATIENCE)
            fast, cpu = Tally(), watch.cpu()
            rate = self.saturate(fast)
            _say(f"{rate:.2f} queries a second with {IN_FLIGHT} in flight")
            fast_cpu = _per_query(cpu, watch.cpu(), len(fast.latencies))
            alone, cpu = Tally(), watch.cpu()
            for number in range(ALONE):
                self.ask(number, time.monotonic(), alone)
            alone_cpu = _per_query(cpu, watch.cpu(), ALONE)
        finally:
            watch.close()
        return {
            "tally": tally,
            "seconds": seconds,
            "growth": growth,
            "fast": fast,
            "rate": rate,
            "alone": alone,
            "cpu": {"load": load_cpu, "fast": fast_cpu, "alone": alone_cpu},
            "events": self.events,
        }

    def load(self, tally: Tally) -> float:
        """Hand queries in at an even pace until all are answered or the time is over; seconds it took."""
        start, pause = time.monotonic(), self.plan.seconds / self.plan.queries
        numbers = iter(range(self.plan.queries))

        def querier() -> None:
            while True:
                with self.lock:
                    number = next(numbers, None)
                if number is None or time.monotonic() > start + self.plan.seconds:
                    return
                due = start + number * pause
                time.sleep(max(0.0, due - time.monotonic()))
                self.ask(number, due, tally)

        _together(querier)
        return time.monotonic() - start

    def saturate(self, tally: Tally) -> float:
        """Queries per second when each thread asks again as soon as it has its answer."""
        start = time.monotonic()

        def querier() -> None:
            number = 0
            while time.monotonic() < start + self.plan.rate_seconds:
                self.ask(number, time.monotonic(), tally)
                number += 1

        _together(querier)
        return len(tally.latencies) / (time.monotonic() - start)

    def ask(self, number: int, due: float, tally: Tally) -> None:
        """Ask about one table of the pool and check what comes back."""
        table = self.pool[number % POOL]
        began, cpu = time.monotonic(), time.thread_time()
        try:
            result = self.federation.query(table, timeout=TIMEOUT, querier="benchmark")
        except OnefoldError as error:
            with tally.lock:
                tally.failed[str(error)] += 1
            return
        cpu, latency = time.thread_time() - cpu, time.monotonic() - due
        wrong = not self.is_right(table, result, began)
        with tally.lock:
            tally.latencies.append(latency)
            tally.cpu.append(cpu)
            tally.wrong += wrong
            tally.partial += result.partial
            tally.sites.update(result.answered)

    def is_right(self, table: np.ndarray, result: Any, began: float) -> bool:
        """Whether an answer is that of the sites it names, and names none that was removed."""
        for name, (since, until) in list(self.outside.items()):
            if since < began < until and name in (*result.answered, *result.missing, *result.refused):
                return False
        with self.lock:
            if result.answered not in self.expected:
                made = GlobalClassifier()
                for name in result.answered:
                    made.add(name, self.models[name])
                self.expected[result.answered] = made
        measures = self.expected[result.answered].measures(table)
        if result.measures is None or result.measures.shape != measures.shape:
            return False
        same = np.allclose(result.measures, measures, rtol=1e-9, atol=0.0)
        return bool(same) and bool(np.all(result.predictions == result.classes[measures.argmin(axis=1)]))

    # --- sites that come and go -----------------------------------------------------------------------

    def _come_and_go(self, joiner: str) -> None:
        leaver, removed = self.names[-2], self.names[-3]
        begin = time.monotonic()
        steps: list[tuple[float, str, Callable[[], object]]] = [
            (JOINS, f"{joiner} has joined", lambda: self.start(joiner, wait=True)),
            (LEAVES, f"{leaver} has left", lambda: self.stop(leaver)),
            (RETURNS, f"{leaver} has returned", lambda: self.start(leaver, wait=True)),
            (REMOVED, f"{removed} is removed and has ended", lambda: self.remove(removed)),
            (BACK, f"{removed} has come back with a new key", lambda: self.let_in(removed)),
        ]
        for when, what, act in steps:
            time.sleep(max(0.0, begin + when * self.plan.seconds - time.monotonic()))
            try:
                act()
            except (OnefoldError, subprocess.TimeoutExpired, KeyError) as error:  # the others go on
                what = f"NOT so: {what} ({error})"
            self.events.append({"seconds": round(time.monotonic() - begin, 1), "what": what})
            _say(f"{self.events[-1]['seconds']} s: {what}")

    def start(self, name: str, *, wait: bool = False) -> None:
        self.running[name] = _start("site", "--folder", str(self.folders[name]))
        if wait:
            self.federation.wait_for([name], PATIENCE)

    def stop(self, name: str) -> None:
        process = self.running.pop(name)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE)

    def remove(self, name: str) -> None:
        self.federation.remove(name)
        self.outside[name] = (time.monotonic(), float("inf"))
        self.running.pop(name).wait(PATIENCE)  # it is told, and ends

    def let_in(self, name: str) -> None:
        """The same site with the same model in a folder of its own, which has a new key."""
        from onefold.federated.flower import Site

        made = self.root / "sites" / f"{name}-again"
        self.outside[name] = (self.outside[name][0], time.monotonic())
        self.federation.add(name, make=made)
        self.folders[name] = made
        site = Site(made).fit(*_table(SITE_ROWS, self.names.index(name)))
        site.configure(per_minute=10**9, total=10**12, querier_total=10**12, approval="anyone")
        self.start(name, wait=True)

    def close(self) -> None:
        for process in reversed(list(self.running.values())):
            process.send_signal(signal.SIGTERM)
        for process in self.running.values():
            process.wait(PATIENCE)


def _say(text: str) -> None:
    print(f"load: {text}", file=sys.stderr, flush=True)


def _table(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % CLASSES
    return 0.3 * rng.standard_normal((n_rows, FEATURES)) + (y[:, None] == np.arange(FEATURES) % CLASSES), y


def _together(querier: Callable[[], None]) -> None:
    with ThreadPoolExecutor(IN_FLIGHT) as pool:
        for done in [pool.submit(querier) for _ in range(IN_FLIGHT)]:
            done.result()


def _per_query(before: dict[str, float], after: dict[str, float], queries: int) -> dict[str, float]:
    return {name: (seconds - before.get(name, 0.0)) / max(1, queries) for name, seconds in after.items()}


# --- what is told -------------------------------------------------------------------------------------------


def _rows(
    plan: Plan, measured: dict[str, Any], plain: dict[str, dict[str, float]], start_up: float
) -> list[Row]:
    tally, fast, alone = measured["tally"], measured["fast"], measured["alone"]
    done = len(tally.latencies) + sum(tally.failed.values())
    asked = f"load, {plan.sites} sites, TLS"
    checked = {
        "minutes": measured["seconds"] / 60.0,
        "queries": done,
        "wanted": plan.queries,
        "no_answer": sum(tally.failed.values()),
        "partial": tally.partial,
        **_latency(tally.latencies),
        "errors": dict(tally.failed),
        "answers_of_sites": dict(sorted(tally.sites.items())),
        "events": measured["events"],
    }
    found = [
        Row(
            f"{asked}: answers that differ from one process", float(tally.wrong + fast.wrong), "<= 0", checked
        ),
        Row(f"{asked}: queries answered / wanted", len(tally.latencies) / plan.queries, None, {}),
    ]
    if measured["growth"]:
        most = measured["growth"][0]
        details = {**most, "processes": measured["growth"]}
        goal = f"<= {FLAT}" if plan.minutes >= SETTLED else None
        found.append(Row(f"{asked}: memory, last third / middle", most["ratio"], goal, details))
    rates = {name: each["exchanges"] / each["seconds"] for name, each in plain.items()}
    both = {
        "queries_per_second": measured["rate"],
        **_latency(fast.latencies),
        "no_answer": sum(fast.failed.values()),
    }
    beside = f"{asked}: queries a second, {IN_FLIGHT} in flight / plain Flower app"
    for kind, size, words in (("single", 1, "one query"), ("together", IN_FLIGHT, f"{IN_FLIGHT} queries")):
        if kind in rates:
            theirs = size * rates[kind]
            details = {**both, "plain_queries_per_second": theirs}
            found.append(Row(f"{beside}, {words} in a message", measured["rate"] / theirs, None, details))
    own = float(np.mean(alone.cpu))
    spent = {
        "start_up_cpu_seconds": start_up,
        "querier_cpu_seconds": own,
        **_latency(alone.latencies),
        **{f"{name}_cpu_seconds": sum(each.values()) for name, each in measured["cpu"].items()},
        "by_process": measured["cpu"],
    }
    name = f"{asked}: processor seconds, starting a process to ask / asking from one that runs"
    found.append(Row(name, start_up / own, ">= 10", spent))
    return found


def _latency(seconds: list[float]) -> dict[str, float]:
    if not seconds:
        return {}
    p50, p95, p99, most = (float(np.quantile(seconds, q)) for q in (0.5, 0.95, 0.99, 1.0))
    return {"p50_s": p50, "p95_s": p95, "p99_s": p99, "max_s": most}
