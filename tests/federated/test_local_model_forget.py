"""Leaving without a trace: a federation, a model, a class, a batch, a row, each to the last bit."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from onefold import KAHM, AutoencoderClassifier, FoldingClassifier, WideKAHM
from onefold.datasets import load, partition
from onefold.exceptions import FileFormatError, InvalidInputError
from onefold.fabrication import PrivateClassifier
from onefold.federated import GlobalClassifier, LocalModel
from onefold.federated.access.log import MembershipLog
from onefold.privacy import Laplace, OptimalNoise
from reference.forging import with_array
from reference.summing import rewritten
from tiers import later

# Stacks of small machines, machines alone, several layers, few and many features, probing, both precisions.
ESTIMATORS = {
    "folding": FoldingClassifier(n_components=6, batch_size=20),
    "folding, one batch": FoldingClassifier(n_components=6, batch_size=1000),
    "folding, two jobs": FoldingClassifier(n_components=6, batch_size=15, n_jobs=2),
    "folding, max": FoldingClassifier(n_components=4, batch_size=30, measure="max"),
    "folding, auto scale": FoldingClassifier(n_components=6, batch_size=20, scale="auto"),
    "contiguous": AutoencoderClassifier(
        WideKAHM(n_components=5, n_layers=3, branch_size=40, partition="contiguous")
    ),
    "kmeans": AutoencoderClassifier(WideKAHM(n_components=5, n_layers=2, branch_size=30, random_state=0)),
    "kmeans, two jobs": AutoencoderClassifier(
        WideKAHM(n_components=5, n_layers=2, branch_size=25, random_state=0), "rms", n_jobs=2
    ),
    "probing": AutoencoderClassifier(WideKAHM(n_components=5, branch_size=25, n_probe=1, random_state=0)),
    "one machine": AutoencoderClassifier(KAHM(n_components=5), "product"),
}


# Every estimator with one of the two precisions, in turn; the other pairs every night.
CASES = [
    pytest.param((kind, name), marks=[pytest.mark.nightly] * ((place + turn) % 2), id=f"{kind}-{name}")
    for place, name in enumerate(ESTIMATORS)
    for turn, kind in enumerate(("float64", "float32"))
]


def _digits(kind):
    digits = load("digits")
    rows = np.flatnonzero(digits.y_train < 5)
    return digits.X_train[rows].astype(kind), digits.y_train[rows], digits.X_test[:150].astype(kind)


@pytest.fixture(scope="module", params=["float64", pytest.param("float32", marks=pytest.mark.nightly)])
def data(request):
    return _digits(request.param)


@pytest.fixture(params=CASES)
def case(request):
    kind, name = request.param
    return *_digits(kind), ESTIMATORS[name]


def same(model: LocalModel, other: LocalModel, queries: np.ndarray) -> None:
    np.testing.assert_array_equal(model.classes_, other.classes_)
    for block in (queries, queries[:1], queries[3:20]):
        np.testing.assert_array_equal(model.answers(block), other.answers(block))


@pytest.mark.exact
def test_fit_with_given_batches_equals_a_plain_fit(case) -> None:
    """What the batches are does not matter for how they are fitted: the plain classifier, bit for bit."""
    X, y, queries, estimator = case
    model = LocalModel(estimator).fit(X, y)
    plain = clone(estimator).fit(X, y)
    np.testing.assert_array_equal(model.answers(queries), plain.distances(queries))
    np.testing.assert_array_equal(model.batches_, plain.batches_)
    same(LocalModel(estimator).fit(X, y, batches=model.batches_), model, queries)


@pytest.mark.exact
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2))])
def test_model_that_forgot_rows_equals_one_that_never_had_them(case, seed) -> None:
    X, y, queries, estimator = case
    rng = np.random.default_rng(seed)
    model = LocalModel(estimator).fit(X, y)
    for count in (1, 7):
        gone = rng.choice(model.row_numbers_, size=count, replace=False)
        model.forget(gone)
        assert not np.isin(gone, model.row_numbers_).any()
        left = model.row_numbers_
        same(model, LocalModel(estimator).fit(X[left], y[left], batches=model.batches_), queries)
    assert len(model.row_numbers_) == len(y) - 8


@pytest.mark.exact
def test_model_without_a_removed_class_equals_one_that_never_had_it(case) -> None:
    X, y, queries, estimator = case
    model = LocalModel(estimator).fit(X, y)
    assert model.remove_class(2).classes_gone == (2,)
    same(model, LocalModel(estimator).fit(X[y != 2], y[y != 2]), queries)  # a plain fit, no batches given


@pytest.mark.exact
def test_model_without_a_removed_batch_equals_one_that_never_had_it(data) -> None:
    """Sixty rows of each class in batches of twenty: without one batch, a plain fit makes the other two."""
    X, y, queries = data
    rows = np.sort(np.concatenate([np.flatnonzero(y == c)[:60] for c in range(5)]))
    X, y = X[rows], y[rows]
    for estimator in (
        FoldingClassifier(n_components=6, batch_size=20),
        AutoencoderClassifier(WideKAHM(n_components=4, branch_size=20, partition="contiguous")),
    ):
        for batch in range(3):
            model = LocalModel(estimator).fit(X, y)
            gone = (y == 3) & (model.batches_ == batch)
            assert gone.sum() == 20
            done = model.remove_batch(3, batch)
            assert (done.n_rows, done.exact, done.partition) == (20, True, "contiguous")
            same(model, LocalModel(estimator).fit(X[~gone], y[~gone]), queries)


@pytest.mark.exact
def test_class_and_rows_added_later_give_the_model_of_a_fresh_fit(case) -> None:
    """Growing step by step is fitting at once in the same batches; what leaves again leaves no trace."""
    X, y, queries, estimator = case
    early = np.flatnonzero((y != 4) & (np.arange(len(y)) % 3 > 0))
    late = np.setdiff1d(np.arange(len(y)), early)
    model = LocalModel(estimator).fit(X[early], y[early])
    before = LocalModel(estimator).fit(X[early], y[early], batches=model.batches_)
    model.extend(X[late], y[late])
    assert model.classes_.tolist() == [0, 1, 2, 3, 4]
    order = np.concatenate([early, late])
    same(model, LocalModel(estimator).fit(X[order], y[order], batches=model.batches_), queries)
    done = model.forget(np.arange(len(early), len(order)))
    assert done.classes_gone == (4,)
    same(model, before, queries)


@pytest.mark.exact
@pytest.mark.parametrize("seed", later(range(5), range(2)))
def test_any_sequence_of_changes_equals_a_fresh_fit(data, seed) -> None:
    X, y, queries = data
    rng = np.random.default_rng(seed)
    estimator = list(ESTIMATORS.values())[rng.integers(len(ESTIMATORS))]
    order = rng.permutation(len(y))
    parts = np.array_split(order, 4)
    came = parts[0]
    model = LocalModel(estimator).fit(X[came], y[came])
    for part in parts[1:]:
        model.extend(X[part], y[part])
        came = np.concatenate([came, part])
        model.forget(rng.choice(model.row_numbers_, size=5, replace=False))
    model.remove_class(int(rng.integers(5)))
    left = came[model.row_numbers_]
    same(model, LocalModel(estimator).fit(X[left], y[left], batches=model.batches_), queries)


def test_only_machines_of_changed_batches_are_fitted(data) -> None:
    X, y, _ = data
    estimator = AutoencoderClassifier(WideKAHM(n_components=3, branch_size=50, random_state=0))
    model = LocalModel(estimator).fit(X, y)
    machines = sum(stack.n_machines for stack in model.estimator_.pool_.stacks)
    before = {id(stack) for stack in model.estimator_.pool_.stacks}
    done = model.forget([0])
    after = {id(stack) for stack in model.estimator_.pool_.stacks}
    assert done.n_refitted + done.n_kept == machines
    assert len(after - before) <= 2  # the machine's new size, and the stack it came from
    assert done.n_kept > done.n_refitted


@pytest.mark.exact
def test_forgetting_says_whether_it_was_exact(data) -> None:
    X, y, queries = data
    clusters = AutoencoderClassifier(WideKAHM(n_components=3, branch_size=30, random_state=0))
    model = LocalModel(clusters).fit(X, y)
    done = model.forget([0])
    assert (done.exact, done.partition) == (False, "kmeans")
    # Machines of a class that was not divided carry nothing over.
    assert LocalModel(clusters).fit(X[:20], y[:20]).forget([0]).exact
    assert LocalModel(FoldingClassifier(n_components=3, batch_size=10)).fit(X, y).forget([0]).exact
    assert LocalModel(AutoencoderClassifier(KAHM(3))).fit(X, y).forget([0]).partition == "single"
    assert LocalModel(clusters).fit(X, y).remove_class(1).exact  # nothing of it is left
    given = LocalModel(clusters).fit(X, y, batches=np.zeros(len(y), dtype=int)).forget([0])
    assert (given.exact, given.partition) == (True, "given")
    # Divided anew: the same as never having seen the row.
    again = LocalModel(clusters).fit(X, y)
    assert again.forget([0], repartition=True).exact
    touched = y[1:] == y[0]
    fresh = LocalModel(clusters).fit(X[1:], y[1:])
    np.testing.assert_array_equal(again.batches_[touched], fresh.batches_[touched])
    same(again, fresh, queries)


@pytest.mark.exact
@pytest.mark.parametrize("fabricate", [False, True])
def test_a_private_model_forgets_without_new_noise(data, fabricate) -> None:
    """Of every row there is one noisy version, before and after: with known noise a fresh fit shows it."""
    X, y, queries = data
    estimator = FoldingClassifier(n_components=5, batch_size=20)
    model = LocalModel(estimator, Laplace(8.0, sensitivity=1.0), fabricate=fabricate, random_state=3).fit(
        X, y
    )
    before = model._rows
    guarantee = model.guarantee_
    noisy = before.values if before.noisy is None else before.noisy
    done = model.forget([5, 6])
    assert done.exact
    after = model._rows.values if model._rows.noisy is None else model._rows.noisy
    np.testing.assert_array_equal(after, np.delete(noisy, [5, 6], axis=0))
    assert model.guarantee_ == guarantee
    rest_y = np.delete(y, [5, 6])
    rows = after
    if fabricate:
        rows = model._recipe.maker.smooth(after, rest_y)
    fresh = LocalModel(estimator).fit(rows, rest_y, batches=model.batches_)
    same(model, fresh, queries)
    untouched = rest_y != y[5]
    if fabricate and y[5] == y[6]:
        np.testing.assert_array_equal(
            model._rows.values[untouched], np.delete(before.values, [5, 6], 0)[untouched]
        )


@pytest.mark.exact
def test_loaded_model_can_forget(case, tmp_path: Path) -> None:
    X, y, queries, estimator = case
    model = LocalModel(estimator).fit(X, y)
    model.save(tmp_path / "owner.onefold")
    loaded = LocalModel.load(tmp_path / "owner.onefold")
    gone = [3, 50, 51]
    assert loaded.forget(gone).exact == model.forget(gone).exact
    same(loaded, model, queries)
    same(
        loaded,
        LocalModel(estimator).fit(np.delete(X, gone, 0), np.delete(y, gone), batches=model.batches_),
        queries,
    )


@pytest.mark.exact
def test_loaded_private_model_can_forget_if_its_noise_was_kept(data, tmp_path: Path) -> None:
    X, y, queries = data
    path = tmp_path / "owner.onefold"
    settings = LocalModel(FoldingClassifier(n_components=5, batch_size=20), Laplace(8.0, sensitivity=1.0))
    model = LocalModel(settings.estimator, settings.mechanism).fit(X, y)
    model.save(path)
    loaded = LocalModel.load(path)
    assert loaded.guarantee_ == model.guarantee_
    with pytest.raises(InvalidInputError, match="like"):
        loaded.forget([1])
    with pytest.raises(InvalidInputError, match="like"):
        loaded.fit(X, y)  # would be raw rows in the place of private ones
    with pytest.raises(InvalidInputError, match="like"):
        loaded.extend(X, y)
    loaded = LocalModel.load(path, like=settings)
    assert loaded.forget([1]).exact
    model.forget([1])
    same(loaded, model, queries)
    assert loaded.fit(X, y).guarantee_ == model.guarantee_


def test_rows_are_forgotten_by_identifier_and_logged(data, tmp_path: Path) -> None:
    X, y, queries = data
    log = MembershipLog(tmp_path / "members.db")
    ids = [f"patient-{number}" for number in range(len(y))]
    estimator = FoldingClassifier(n_components=5, batch_size=20)
    model = LocalModel(estimator).fit(X, y, ids=ids)
    by_number = LocalModel(estimator).fit(X, y)
    log.append("forget", "north", **model.forget(["patient-7", "patient-3"]).facts)
    by_number.forget([3, 7])
    same(model, by_number, queries)
    with pytest.raises(InvalidInputError, match="identifiers"):
        model.forget(["patient-7"])
    model.extend(X[:2], y[:2], ids=["new-1", "new-2"])
    log.append("forget", "north", **model.forget(["new-2"]).facts)
    log.append("batch-removed", "north", **model.remove_batch(int(y[0]), 0).facts)
    log.append("class-removed", "north", **model.remove_class(4).facts)
    model.save(tmp_path / "owner.onefold")
    text = log.store.path.read_bytes().decode("latin-1")
    assert "patient" not in text
    assert b"patient" not in (tmp_path / "owner.onefold").read_bytes()
    assert [entry.event.value for entry in log] == [
        "forget",
        "forget",
        "batch-removed",
        "class-removed",
    ]
    assert next(iter(log)).facts == {"rows": 2, "exact": True, "partition": "contiguous"}
    assert log.verify() == 4
    again = LocalModel.load(tmp_path / "owner.onefold", ids=[*ids, "new-1", "new-2"])
    left = ids[int(again.row_numbers_[0])]
    again.forget([left])
    for bad in (ids[:-1], ["same"] * len(y), [0.5] * len(y)):
        with pytest.raises(InvalidInputError, match="ids"):
            LocalModel(estimator).fit(X, y, ids=bad)


@pytest.mark.exact
def test_forgotten_raw_row_may_return_and_a_noisy_one_may_not(data, tmp_path: Path) -> None:
    """Raw rows may return under their identifier; noisy ones may not, since noise would be drawn twice."""
    X, y, queries = data
    estimator = FoldingClassifier(n_components=5, batch_size=20)
    ids = list(range(1000, 1000 + len(y)))
    model = LocalModel(estimator).fit(X, y, ids=ids)
    with pytest.raises(InvalidInputError, match="there already"):
        model.extend(X[:1], y[:1], ids=[1000])
    model.forget([1000])
    model.extend(X[:1], y[:1], ids=[1000])
    order = np.r_[1 : len(y), 0]
    same(model, LocalModel(estimator).fit(X[order], y[order], batches=model.batches_), queries)
    model.save(tmp_path / "owner.onefold")
    again = LocalModel.load(tmp_path / "owner.onefold", ids=[*ids, 1000])
    assert again.forget([1000]).n_rows == model.forget([1000]).n_rows == 1
    same(again, model, queries)
    private = LocalModel(estimator, Laplace(8.0, sensitivity=1.0)).fit(X, y, ids=ids)
    private.forget([1000])
    with pytest.raises(InvalidInputError, match="noise already"):
        private.extend(X[:1], y[:1], ids=[1000])
    private.extend(X[:1], y[:1], ids=[0])


@pytest.mark.exact
def test_the_server_keeps_nothing_of_a_forgotten_row(data) -> None:
    """Neither the old machines nor what was learnt from their answers."""
    X, y, queries = data
    model = LocalModel(FoldingClassifier(n_components=5, batch_size=20)).fit(X[:200], y[:200])
    server = GlobalClassifier("weighted").learn_trust(X[200:300], y[200:300]).add("a", model)
    assert server.measures(queries).shape == (150, 5)
    old = weakref.ref(model.estimator_)
    model.remove_class(0)
    gc.collect()
    assert old() is None
    never = LocalModel(FoldingClassifier(n_components=5, batch_size=20))
    kept = np.flatnonzero(y[:200] != 0)
    never.fit(X[kept], y[kept])
    fresh = GlobalClassifier("weighted").learn_trust(X[200:300], y[200:300]).add("a", never)
    np.testing.assert_array_equal(server.measures(queries), fresh.measures(queries))


@pytest.mark.parametrize("bad", [[], [[1]], [0.5], [-1], [10**6], [1, 1], "1", None, [True]])
def test_invalid_row_numbers_cannot_be_forgotten(data, bad) -> None:
    X, y, _ = data
    model = LocalModel(FoldingClassifier(n_components=3)).fit(X, y)
    with pytest.raises(InvalidInputError) as caught:
        model.forget(bad)
    assert "\n" not in str(caught.value)
    assert len(model.row_numbers_) == len(y)


def test_invalid_changes_are_refused(data) -> None:
    X, y, _ = data
    model = LocalModel(FoldingClassifier(n_components=3)).fit(X[:3], y[:3])
    with pytest.raises(InvalidInputError, match="remove the site"):
        model.forget([0, 1, 2])
    assert len(model.row_numbers_) == 3
    for call in (lambda: model.remove_class(99), lambda: model.remove_batch(int(y[0]), 7)):
        with pytest.raises(InvalidInputError, match="no such"):
            call()
    lean = LocalModel(FoldingClassifier(n_components=3), keep_rows=False).fit(X, y)
    with pytest.raises(InvalidInputError, match="keep_rows"):
        lean.forget([0])
    for batches in ([0], np.zeros(len(y)), np.zeros((len(y), 1), dtype=int)):
        with pytest.raises(InvalidInputError, match="batches"):
            LocalModel(FoldingClassifier(n_components=3)).fit(X, y, batches=batches)


def test_private_classifier_as_estimator_equals_a_mechanism_of_the_model(data) -> None:
    X, y, queries = data
    inner = FoldingClassifier(n_components=5, batch_size=20)
    for fabricate in (False, True):
        whole = PrivateClassifier(inner, OptimalNoise(6.0, sensitivity=1.0), fabricate, random_state=1)
        by_estimator = LocalModel(whole).fit(X, y)
        by_mechanism = LocalModel(
            inner, OptimalNoise(6.0, sensitivity=1.0), fabricate=fabricate, random_state=1
        ).fit(X, y)
        expected = whole.fit(X, y)
        assert by_estimator.guarantee_ == by_mechanism.guarantee_ == expected.guarantee_
        np.testing.assert_array_equal(by_estimator.answers(queries), expected.distances(queries))
        same(by_estimator, by_mechanism, queries)
    with pytest.raises(InvalidInputError, match="own mechanism"):
        LocalModel(whole, OptimalNoise(1.0, sensitivity=1.0)).fit(X, y)


@pytest.mark.exact
def test_federation_without_a_site_a_class_and_a_batch_equals_one_that_never_had_them(data) -> None:
    """All at once, under each rule: removed, forgotten and re-added members leave no trace."""
    X, y, queries = data
    estimator = FoldingClassifier(n_components=5, batch_size=15)
    owners = partition(y, 5, "iid", random_state=0)
    labelled = np.arange(0, len(y), 7)
    for rule in ("min", "trimmed", "weighted"):
        models = [LocalModel(estimator).fit(X[rows], y[rows]) for rows in owners]
        server = GlobalClassifier(rule, n_liars=1).learn_trust(X[labelled], y[labelled])
        never = GlobalClassifier(rule, n_liars=1).learn_trust(X[labelled], y[labelled])
        for number, model in enumerate(models):
            server.add(number, model)
        server.measures(queries)  # whatever it learns from all of them must be forgotten again
        server.remove(3)
        server.remove(1).add(1, models[1])
        models[0].remove_class(2)
        models[2].forget([4, 5])
        for number in (0, 1, 2, 4):
            left = owners[number][models[number].row_numbers_]
            never.add(number, LocalModel(estimator).fit(X[left], y[left], batches=models[number].batches_))
        np.testing.assert_array_equal(server.measures(queries), never.measures(queries))
        np.testing.assert_array_equal(server.predict(queries), never.predict(queries))


@pytest.mark.exact
def test_server_lets_a_site_forget(data, tmp_path: Path) -> None:
    X, y, queries = data
    estimator = FoldingClassifier(batch_size=10)
    log = MembershipLog(tmp_path / "log")
    server, fresh = GlobalClassifier(log=log), GlobalClassifier()
    half = len(X) // 2
    server.add("a", LocalModel(estimator).fit(X[:half], y[:half]))
    server.add("b", LocalModel(estimator).fit(X[half:], y[half:]))
    gone = server.forget("a", [0, 3])
    assert (gone.n_rows, gone.exact) == (2, True)
    machines = sum(stack.n_machines for stack in server._members["a"].estimator_.pool_.stacks)
    assert 0 < gone.n_refitted <= machines == gone.n_refitted + gone.n_kept
    batches = server._members["a"].batches_  # the same machines, without these rows
    kept = np.delete(np.arange(half), [0, 3])
    fresh.add("a", LocalModel(estimator).fit(X[kept], y[kept], batches=batches))
    fresh.add("b", LocalModel(estimator).fit(X[half:], y[half:]))
    np.testing.assert_array_equal(server.measures(queries), fresh.measures(queries))
    last = list(log)[-1]
    assert (last.event, last.site, last.facts["rows"]) == ("forget", "a", 2)
    for client in ("c", "b"):
        if client == "b":
            server.remove("b")
        with pytest.raises(InvalidInputError, match="no site"):
            server.forget(client, [0])


def test_file_whose_rows_nobody_can_have_counted_is_refused(tmp_path) -> None:
    X = np.random.default_rng(0).random((20, 3))
    LocalModel(FoldingClassifier(n_components=2)).fit(X, np.arange(20) % 2).save(tmp_path / "site")
    content = (tmp_path / "site").read_bytes()
    for n_ever in (19, -1, 1.5, None):
        (tmp_path / "site").write_bytes(
            with_array(content, "extras/beside", lambda beside, n_ever=n_ever: counted(beside, n_ever))
        )
        with pytest.raises(FileFormatError):
            LocalModel.load(tmp_path / "site")


def counted(beside: np.ndarray, n_ever: object) -> np.ndarray:
    """What belongs to a model, with another number of rows that ever came."""
    changed = rewritten(beside.tobytes(), lambda plain: plain["rows"].update(n_ever=n_ever))
    return np.frombuffer(changed, dtype=np.uint8)
