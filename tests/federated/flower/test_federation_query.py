"""The Python interface to a running federation, with a thread in the place of Flower's processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from onefold import AutoencoderClassifier, WideKAHM
from onefold._base.files import write_whole
from onefold.exceptions import FederationError, InvalidInputError, OnefoldError
from onefold.federated import GlobalClassifier, LocalModel
from onefold.federated.access.signatures import SigningKey
from onefold.federated.flower import Federation, Site, asking, decrypt, make_query_key, spool
from onefold.federated.flower.evaluation import JOB_FILE, Job, evaluate
from onefold.federated.flower.folders import private_folder
from onefold.federated.flower.registry import Registry
from onefold.federated.flower.site_app import answer
from onefold.federated.flower.spool import Reply, Request, Spool
from onefold.federated.messages import Failure, Message
from onefold.tables import Field, Schema
from reference.site_files import give_sign

pytest.importorskip("cryptography")

NAMES = ("north", "south", "west")
COLUMNS = ("a", "b", "c")


def make_rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 3
    centres = np.array([[0.2, 0.2, 0.5], [0.8, 0.3, 0.5], [0.5, 0.8, 0.4]])
    return centres[y] + 0.08 * rng.standard_normal((n_rows, 3)), y


X, Y = make_rows(30, 9)


class FakeRun:
    """Takes requests from the spool and answers them from the sites' folders, as the run at a server does."""

    def __init__(self, federation: Federation, sites: Path) -> None:
        self.federation, self.sites = federation, sites
        self.spool = Spool(federation.folder.spool)
        self.absent: set[str] = set()
        self.is_deaf = False  # gives its sign of life but takes no request
        self.callers: list[str] = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        while not self.stopping.is_set():
            give_sign(self.spool, set(self.federation.sites) - self.absent)
            if not self.is_deaf:
                for request in self.spool.take():
                    self.callers.append(request.caller)
                    self.reply(request)
            time.sleep(0.02)
        self.spool.close_run()

    def reply(self, request: Request) -> None:
        members = self.federation.sites
        present = [name for name in members if name not in self.absent]
        said: dict[str, Message] = {
            name: answer(
                Site(self.sites / name).folder,
                request.query,
                request.caller,
                request.lock,
                signature=request.signature,
            )
            for name in present
        }
        query_id = request.query.id
        if request.lock is None:
            self.spool.deliver(query_id, Reply(members, tuple(said.values())))
            return
        job = private_folder(self.spool.job(query_id))
        failures = tuple(m for m in said.values() if isinstance(m, Failure))
        n_rows = len(request.query.features) * request.lock.looks
        Job(request.lock.key_id, n_rows, Reply(members, failures)).save(job / JOB_FILE)
        for name, message in said.items():
            if not isinstance(message, Failure):
                write_whole(job / f"{name}.answers", message.to_bytes())
        self.spool.deliver(query_id, evaluate(self.spool, query_id))


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, LocalModel]]:
    """A plaintext federation whose three sites have fitted a model each, of two classes each."""
    root = tmp_path_factory.mktemp("api")
    Federation.create(root, NAMES, insecure=True)
    models = {}
    for number, name in enumerate(NAMES):
        rows, labels = make_rows(120, number)
        mine = labels != number
        estimator = AutoencoderClassifier(WideKAHM(scale="auto", random_state=0))
        models[name] = LocalModel(estimator, keep_rows=False).fit(rows[mine], labels[mine])
        Site(root / "sites" / name).store(models[name], COLUMNS).configure(per_minute=10**6)
    return root, models


@pytest.fixture
def federation(fitted: tuple[Path, dict[str, LocalModel]]) -> Federation:
    """All three sites are members again, whatever a test before did."""
    root, _ = fitted
    found = Federation(root)
    registry = Registry(found.folder)
    for name in NAMES:
        if registry.sites[name].status == "removed":
            found.add(name)
        registry.admit(name, Site(root / "sites" / name).profile)
    return found


@pytest.fixture
def run(federation: Federation, fitted: tuple[Path, Any]) -> Iterator[FakeRun]:
    made = FakeRun(federation, fitted[0] / "sites")
    made.thread.start()
    while not federation.is_running:
        time.sleep(0.01)
    yield made
    made.stopping.set()
    made.thread.join()


def in_one_process(models: dict[str, LocalModel], *names: str) -> GlobalClassifier:
    classifier = GlobalClassifier()
    for name in sorted(names):
        classifier.add(name, models[name])
    return classifier


def wait_until_offline(federation: Federation, name: str) -> None:
    while name in {site.name for site in federation.status().sites if site.online}:
        time.sleep(0.02)


# --- plain queries ----------------------------------------------------------------------------------------


def test_query_returns_what_one_process_would_predict(
    federation: Federation, run: FakeRun, fitted: tuple[Path, dict[str, LocalModel]]
) -> None:
    expected = in_one_process(fitted[1], *NAMES)
    with federation as fed:
        result = fed.query(X, columns=COLUMNS, querier="notebook")
    np.testing.assert_array_equal(result.predictions, expected.predict(X))
    np.testing.assert_allclose(result.measures, expected.measures(X), rtol=1e-9)
    assert (result.answered, result.missing, result.partial) == (NAMES, (), False)
    assert result.classes.tolist() == [0, 1, 2]
    assert run.callers == ["notebook"]
    assert federation.is_running  # leaving the block stops no server that others run


def test_query_in_batches_gives_the_same_predictions(federation: Federation, run: FakeRun) -> None:
    whole, parts = federation.query(X), federation.query(X, batch_size=7)
    assert parts.n_rows == len(X)
    np.testing.assert_array_equal(parts.predictions, whole.predictions)
    # Other batch shapes give other last digits.
    np.testing.assert_allclose(parts.measures, whole.measures, rtol=1e-9)


def test_query_with_an_absent_site_is_partial_and_names_it(
    federation: Federation, run: FakeRun, fitted: tuple[Path, dict[str, LocalModel]]
) -> None:
    run.absent = {"west"}
    result = federation.query(X)
    assert (result.partial, result.missing, result.answered) == (True, ("west",), ("north", "south"))
    np.testing.assert_array_equal(result.predictions, in_one_process(fitted[1], "north", "south").predict(X))


def test_query_with_no_site_there_is_a_federation_error(federation: Federation, run: FakeRun) -> None:
    run.absent = set(NAMES)
    with pytest.raises(FederationError, match=r"no answer can be used.*north absent"):
        federation.query(X)


def test_query_that_fails_at_once_leaves_no_other_batch_for_the_sites(
    federation: Federation, run: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    def reply(request: Request) -> None:  # to the first batch; the others are on their way
        if np.array_equal(request.query.features, X[:5]):
            run.spool.deliver(request.query.id, Reply(federation.sites, ()))

    monkeypatch.setattr(run, "reply", reply)
    with pytest.raises(FederationError, match="no answer can be used") as held:
        federation.query(X, batch_size=5, timeout=5)
    assert not list((federation.folder.spool / "requests").iterdir())
    assert held.value.__traceback__ is not None  # as in a notebook, where the last error stays


def test_two_queries_at_once_each_get_their_own_answer(
    federation: Federation, run: FakeRun, fitted: tuple[Path, dict[str, LocalModel]]
) -> None:
    expected = in_one_process(fitted[1], *NAMES)
    with ThreadPoolExecutor(4) as pool:
        asked = [X[start : start + 5] for start in range(0, 20, 5)]
        found = list(pool.map(federation.query, asked))
    for rows, result in zip(asked, found, strict=True):
        np.testing.assert_array_equal(result.predictions, expected.predict(rows))


def test_query_takes_the_rule_of_the_call(federation: Federation, run: FakeRun) -> None:
    result = federation.query(X, rule="trimmed", n_liars=1)
    assert result.partial is False
    assert set(result.unprotected) == {0, 1, 2}  # two sites for each class cannot outvote one liar
    checked = federation.query(X, rule="weighted", held_out=make_rows(30, 20))
    assert np.mean(checked.predictions == Y) > 0.9


def test_data_frame_columns_are_compared(federation: Federation, run: FakeRun) -> None:
    pandas = pytest.importorskip("pandas")
    assert federation.query(pandas.DataFrame(X, columns=list(COLUMNS))).partial is False
    with pytest.raises(InvalidInputError, match="columns are not those of the sites"):
        federation.query(pandas.DataFrame(X, columns=["b", "a", "c"]))


BAD: dict[str, tuple[Any, dict[str, Any], str]] = {
    "other features": (X[:, :2], {}, "2 feature"),
    "other column names": (X, {"columns": ["a", "b", "z"]}, "columns are not those"),
    "too few column names": (X, {"columns": ["a"]}, "1 column names for 3"),
    "one row as a vector": (X[0], {}, "must be a table"),
    "no rows": (X[:0], {}, "at least one row"),
    "texts": ([["a", "b", "c"]], {}, "must be numbers"),
    "not a number": (np.full((2, 3), np.nan), {}, "finite"),
    "unknown rule": (X, {"rule": "median"}, "rule"),
    "held-out rows without the weighted rule": (X, {"held_out": (X, Y)}, "weighted rule only"),
    "weighted rule without rows": (X, {"rule": "weighted"}, "needs held-out rows"),
    "bits without encryption": (X, {"bits": 8}, "for encrypted queries"),
    "encrypted with another rule": (X, {"encrypted": True, "rule": "checked"}, "only take the minimum"),
    "encrypted with liars": (X, {"encrypted": True, "n_liars": 1}, "withstands no lying site"),
    "no time": (X, {"timeout": 0}, "timeout"),
    "no rows at once": (X, {"batch_size": 0}, "batch_size"),
    "a querier with a path": (X, {"querier": "../me"}, "a querier's name must be"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_query_is_refused_with_one_line(case: str, federation: Federation, run: FakeRun) -> None:
    rows, options, message = BAD[case]
    with pytest.raises(InvalidInputError, match=message) as caught:
        federation.query(rows, **options)
    assert "\n" not in str(caught.value)


def test_query_without_a_server_says_how_to_start_it(federation: Federation) -> None:
    with pytest.raises(FederationError, match="not running: start it with"):
        federation.query(X)


def test_query_gives_up_when_the_server_does_not_reply(
    federation: Federation, run: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "GRACE", 0.2)
    run.is_deaf = True
    with pytest.raises(FederationError, match="did not reply within"):
        federation.query(X, timeout=0.1)
    assert list((federation.folder.spool / "requests").iterdir()) == []  # it is not answered later


def test_query_gives_up_when_the_server_stops_half_way(
    federation: Federation, run: FakeRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spool, "SILENT_LOOKS", 5)
    run.is_deaf = True
    stopper = threading.Timer(0.3, run.stopping.set)
    stopper.start()
    with pytest.raises(FederationError, match="not running"):
        federation.query(X)
    stopper.join()


# --- members ----------------------------------------------------------------------------------------------


def test_status_names_the_sites_and_which_are_connected(federation: Federation, run: FakeRun) -> None:
    run.absent = {"west"}
    wait_until_offline(federation, "west")
    found = federation.status()
    assert (found.running, found.mode, found.rule) == (True, "query", "min")
    assert {site.name: (site.status, site.online) for site in found.sites} == {
        "north": ("member", True),
        "south": ("member", True),
        "west": ("member", False),
    }
    assert found.to_dict()["sites"][0]["features"] == 3


def test_removed_site_has_no_part_in_later_answers(
    federation: Federation, run: FakeRun, fitted: tuple[Path, dict[str, LocalModel]]
) -> None:
    assert federation.remove("south").sites == ("north", "west")
    result = federation.query(X)
    assert (result.answered, result.partial) == (("north", "west"), False)
    np.testing.assert_array_equal(result.predictions, in_one_process(fitted[1], "north", "west").predict(X))
    for unknown in ("south", "nowhere"):
        with pytest.raises(InvalidInputError, match=f"no site {unknown} is in this federation"):
            federation.remove(unknown)


def test_wait_for_returns_when_the_sites_are_there(federation: Federation, run: FakeRun) -> None:
    assert federation.wait_for(NAMES, timeout=10) is federation
    run.absent = {"west"}
    wait_until_offline(federation, "west")
    with pytest.raises(FederationError, match="not there in time: west"):
        federation.wait_for(["west", "north"], timeout=0)
    with pytest.raises(InvalidInputError, match="no site east"):
        federation.wait_for(["east"], timeout=0)
    assert federation.wait_for(timeout=10) is federation  # the server alone


def test_wait_for_says_when_the_server_is_not_running(federation: Federation) -> None:
    with pytest.raises(FederationError, match="not running: start it with"):
        federation.wait_for(timeout=0)


def test_folder_of_the_federation_or_of_its_server_is_found(
    fitted: tuple[Path, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    root, _ = fitted
    server = Federation(root / "server").folder.root
    assert Federation(root).folder.root == server
    monkeypatch.chdir(root)
    assert Federation().folder.root.resolve() == server
    assert Site("north").folder.root.resolve() == Site(root / "sites/north").folder.root
    with pytest.raises(InvalidInputError, match="--folder, or make one with onefold federate init"):
        Federation(root / "sites")
    with pytest.raises(InvalidInputError, match="no site's folder"):
        Site(root / "server")


@pytest.mark.parametrize("kind", [int, str, object])
def test_held_out_rows_are_read_as_they_were_written(tmp_path: Path, kind: type) -> None:
    labels = Y.astype(str).astype(kind) if kind is object else Y.astype(kind)
    made = Federation.create(tmp_path, ["north"], rule="weighted", held_out=(X, labels), insecure=True)
    path = made.folder.held_out
    assert path.stat().st_mode & 0o077 == 0
    rows, classes = asking.kept_held_out(path)
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(classes, labels.astype(classes.dtype))


def test_create_refuses_a_rule_without_its_rows_and_leaves_nothing(tmp_path: Path) -> None:
    place = tmp_path / "new"
    for options in ({"rule": "weighted"}, {"held_out": (X, Y)}, {"rule": "median"}, {"port": 0}):
        with pytest.raises(InvalidInputError):
            Federation.create(place, ["a"], **options)  # type: ignore[arg-type]
    assert not place.exists()
    made = Federation.create(place, ["a"], rule="weighted", held_out=(X, Y))
    assert made.folder.held_out.exists()
    with pytest.raises(InvalidInputError, match="there is a federation already"):
        Federation.create(place, ["a"])


def test_add_makes_a_folder_with_a_key_and_leaves_none_when_it_fails(tmp_path: Path) -> None:
    made = Federation.create(tmp_path / "f", ["north"])
    folder = made.add("east", make=tmp_path / "east")
    assert folder == tmp_path / "east"
    assert (tmp_path / "east" / "node.key").exists()
    with pytest.raises(InvalidInputError, match="another site has this key"):
        made.add("west", tmp_path / "east" / "node.pub", make=tmp_path / "west")
    assert not (tmp_path / "west").exists()


# --- sites ------------------------------------------------------------------------------------------------


def test_site_without_a_model_does_not_serve(tmp_path: Path) -> None:
    Federation.create(tmp_path, ["north"], insecure=True)
    site = Site(tmp_path / "sites/north")
    for serve in (site.serve, site.start):
        with pytest.raises(FederationError, match="no model yet"):
            serve()
    assert not site.is_running


def test_site_settings_are_kept_and_checked(tmp_path: Path) -> None:
    Federation.create(tmp_path, ["north"], insecure=True)
    folder = tmp_path / "sites/north"
    Site(folder).configure(total=7, sends="private-model", trust_keys=["0" * 64])
    again = Site(folder).configure(trust_keys=["1" * 64])
    assert (again.settings.total, again.settings.sends) == (7, "private-model")
    assert again.folder.trusted_key_ids == {"0" * 64, "1" * 64}
    bad: list[Callable[[], object]] = [
        lambda: again.configure(total=0),
        lambda: again.configure(sends="everything"),
        lambda: again.configure(trust_keys=["x"]),
    ]
    for call in bad:
        with pytest.raises(OnefoldError):
            call()
    assert Site(folder).settings.plain == again.settings.plain


# --- sites that approve queriers --------------------------------------------------------------------------


@pytest.fixture
def approving(fitted: tuple[Path, Any], federation: Federation) -> Iterator[list[Site]]:
    """The sites answer approved queriers only, until the test ends."""
    sites = [Site(fitted[0] / "sites" / name).configure(approval="queriers") for name in NAMES]
    yield sites
    for site in sites:
        site.configure(approval="anyone")


def test_signed_query_waits_and_is_answered_where_it_was_approved(
    federation: Federation, run: FakeRun, approving: list[Site], tmp_path: Path
) -> None:
    key = SigningKey.create("ward", tmp_path)
    with pytest.raises(FederationError, match="north, south, west answers signed queries only"):
        federation.query(X)
    with pytest.raises(FederationError, match="waiting for approval at north, south, west"):
        federation.query(X, querier=key)
    for site in approving[:2]:
        site.approvals().approve("ward", "queriers")
    options: list[dict[str, Any]] = [
        {},
        {"batch_size": 7},
        {"rule": "weighted", "held_out": make_rows(30, 20)},
    ]
    for each in options:
        result = federation.query(X, querier=key, purpose="triage", **each)
        assert (result.answered, result.refused) == (NAMES[:2], {"west": "waiting-for-approval"})
    # The sites are shared: other tests have queriers of their own there.
    (entry,) = [each for each in approving[0].approvals().entries() if each.querier.name == "ward"]
    assert entry.answered == len(X) * 3 + 30  # the held-out rows are asked about as well
    with pytest.raises(InvalidInputError, match="one printable line"):
        federation.query(X, querier=key, purpose="two\nlines")


@pytest.mark.merge
def test_signed_encrypted_query_and_signed_query_key_are_answered(
    federation: Federation, run: FakeRun, approving: list[Site], tmp_path: Path
) -> None:
    pytest.importorskip("seal")
    key, keys = SigningKey.create("elsewhere", tmp_path), tmp_path / "keys"
    for site in approving:
        site.approvals().approve(str(tmp_path / "elsewhere.pub"), "queriers")
    result = federation.query(X[:4], encrypted=True, keys=keys, querier=key)
    assert result.answered == NAMES
    stated = {"amount": 5, "until": 2**40, "purpose": "triage"}
    make_query_key(
        tmp_path / "me.querykey",
        3,
        [0, 1, 2],
        bound=1.0,
        keys=keys,
        sign=lambda query_key: key.sign_key(query_key, federation.status().federation, **stated),
    )
    # The operator, who has no approved key, asks for the querier, as often as that allows.
    found = federation.collect(X[:4], tmp_path / "me.querykey", tmp_path / "x.encrypted", columns=COLUMNS)
    assert found.answered == NAMES
    assert len(decrypt(tmp_path / "x.encrypted", keys=keys).predictions) == 4
    with pytest.raises(FederationError, match="budget-spent"):
        federation.collect(X[:4], tmp_path / "me.querykey", tmp_path / "y.encrypted", columns=COLUMNS)


# --- encrypted queries, three roles -----------------------------------------------------------------------


def test_encrypted_query_predicts_the_closest_class(
    federation: Federation, run: FakeRun, tmp_path: Path
) -> None:
    pytest.importorskip("seal")
    result = federation.query(X[:6], encrypted=True, keys=tmp_path / "keys", power=0.5)
    assert result.measures is None
    assert (result.answered, result.partial) == (NAMES, False)
    assert result.predictions.tolist() == Y[:6].tolist()
    assert (result.encryption["bits"], result.encryption["power"]) == (8, 0.5)
    with pytest.raises(InvalidInputError, match="must not be in the server's folder"):
        federation.query(X, encrypted=True, keys=federation.folder.root / "keys")


@pytest.mark.merge
def test_querier_elsewhere_makes_a_key_and_decrypts_the_file(
    federation: Federation, run: FakeRun, tmp_path: Path
) -> None:
    pytest.importorskip("seal")
    keys = tmp_path / "secret"
    key = make_query_key(tmp_path / "me.querykey", 3, [0, 1, 2], bound=1.0, keys=keys)
    run.absent = {"west"}
    found = federation.collect(X, tmp_path / "me.querykey", tmp_path / "x.encrypted", columns=COLUMNS)
    assert (found.key_id, found.n_rows) == (key.key_id, len(X))
    assert (found.partial, found.missing, found.answered) == (True, ("west",), ("north", "south"))
    result = decrypt(tmp_path / "x.encrypted", keys=keys)
    assert (result.partial, result.missing) == (True, ("west",))
    assert np.mean(result.predictions == Y) > 0.9
    with pytest.raises(FederationError, match="secret key of this query is not here"):
        decrypt(tmp_path / "x.encrypted", keys=tmp_path / "empty")
    with pytest.raises(InvalidInputError, match=r"must end in \.encrypted"):
        federation.collect(X, tmp_path / "me.querykey", tmp_path / "x.txt")
    with pytest.raises(InvalidInputError, match=r"must end in \.querykey"):
        make_query_key(tmp_path / "me.txt", 3, [0, 1], bound=1.0, keys=keys)


@pytest.mark.merge
def test_site_that_trusts_another_key_refuses_to_answer_encrypted(
    federation: Federation, run: FakeRun, fitted: tuple[Path, Any], tmp_path: Path
) -> None:
    pytest.importorskip("seal")
    site = Site(fitted[0] / "sites/south").configure(trust_keys=["0" * 64])
    try:
        result = federation.query(X, encrypted=True, keys=tmp_path / "keys")
        assert (result.partial, result.refused) == (True, {"south": "untrusted-key"})
    finally:
        site.folder.trusted_keys.unlink()


# --- tables by a schema -----------------------------------------------------------------------------------

SCHEMA = Schema(
    [
        Field("age", "integer", low=0, high=100),
        Field("pulse", low=40, high=200, missing="indicator"),
        Field("ward", "string", levels=("cardio", "neuro", "other"), other="other"),
        Field("sick", "boolean", "label"),
    ]
)


def make_table(n_rows: int, seed: int) -> dict[str, list[Any]]:
    """Text, gaps, an undeclared category, a column too many."""
    rng = np.random.default_rng(seed)
    sick = rng.random(n_rows) < 0.5
    return {
        "note": ["-"] * n_rows,
        "ward": ["cardio" if s else str(rng.choice(["neuro", "maternity"])) for s in sick],
        "sick": ["true" if s else "false" for s in sick],
        "pulse": ["" if rng.random() < 0.2 else f"{80 + 60 * s + 10 * rng.random():.1f}" for s in sick],
        "age": [str(int(30 + 40 * s + 10 * rng.random())) for s in sick],
    }


@pytest.fixture(scope="module")
def by_schema(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Federation, GlobalClassifier]]:
    """Two sites with one schema, and the same federation in one process."""
    root = tmp_path_factory.mktemp("schema")
    federation = Federation.create(root, NAMES[:2], insecure=True)
    expected = GlobalClassifier()
    for number, name in enumerate(NAMES[:2]):
        site = Site(root / "sites" / name)
        site.fit(make_table(80, number), schema=SCHEMA).configure(per_minute=10**6)
        Registry(federation.folder).admit(name, site.profile)
        expected.add(name, LocalModel(schema=SCHEMA).fit(make_table(80, number)))
    made = FakeRun(federation, root / "sites")
    made.thread.start()
    while not federation.is_running:
        time.sleep(0.01)
    yield federation, expected
    made.stopping.set()
    made.thread.join()


def test_tables_are_asked_about_by_the_schema_of_the_sites(
    by_schema: tuple[Federation, GlobalClassifier],
) -> None:
    federation, expected = by_schema
    asked = make_table(40, 9)
    result = federation.query(asked, schema=SCHEMA)
    np.testing.assert_array_equal(result.measures, expected.measures(asked))
    assert np.mean(result.predictions == np.array(asked["sick"])) > 0.9
    broken = {"age": ["?", 30], "ward": ["cardio", None], "pulse": [None, None]}
    assert federation.query(broken, schema=SCHEMA).n_rows == 2
    held_out = (make_table(30, 8), None)
    weighted = federation.query(asked, schema=SCHEMA, rule="weighted", held_out=held_out)
    np.testing.assert_array_equal(weighted.predictions, result.predictions)
    assert "not-trusted" not in weighted.outliers.values()


def test_query_by_another_schema_or_none_is_refused_by_the_first_difference(
    by_schema: tuple[Federation, GlobalClassifier],
) -> None:
    federation, _ = by_schema
    wider = Field("age", "integer", low=0, high=120)
    other = Schema([wider, *SCHEMA.fields[1:]])
    with pytest.raises(InvalidInputError, match=r"^the schema is not that of the sites: field 'age'$"):
        federation.query(make_table(4, 9), schema=other)
    with pytest.raises(InvalidInputError, match="the sites have a schema: give it"):
        federation.query(SCHEMA.transform(make_table(4, 9)))
    with pytest.raises(InvalidInputError, match="has no column 'pulse'"):
        federation.query({"age": [1], "ward": ["cardio"]}, schema=SCHEMA)


def test_query_by_a_schema_of_sites_without_one_is_refused(federation: Federation) -> None:
    with pytest.raises(InvalidInputError, match="the sites have no schema"):
        federation.query(make_table(4, 9), schema=SCHEMA)


def test_encrypted_query_takes_a_table(
    by_schema: tuple[Federation, GlobalClassifier], tmp_path: Path
) -> None:
    pytest.importorskip("seal")
    federation, expected = by_schema
    asked = make_table(10, 9)
    result = federation.query(asked, schema=SCHEMA, encrypted=True, bits=8, keys=tmp_path / "keys")
    assert np.mean(result.predictions == expected.predict(asked)) >= 0.8
