"""Kill -9 at every durable step, once and twice in a row: what was acknowledged is there, and work goes on.

The disk that is full at every step in turn leaves the old state and an error that names the file.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

from onefold import KAHM, io
from onefold._base import files
from onefold._base.files import (
    atomic_write,
    remove_file,
    sweep_parts,
    write_whole,
)
from onefold.exceptions import QueryRefused
from onefold.federated import LocalModel, release_moments
from onefold.federated.access.approvals import Approvals, OwnerDecision
from onefold.federated.access.guard import QueryGuard, Replays
from onefold.federated.access.log import MembershipLog, SiteLog
from onefold.federated.access.signatures import Signature, SigningKey
from onefold.federated.access.store import Store
from onefold.federated.contract import default_classifier
from onefold.federated.declared import declared_moments
from onefold.federated.messages import Profile, Query
from onefold.privacy import Event, Ledger
from onefold.tables import Field, Schema
from tiers import later

MODELS = [KAHM(1, scale=1.0).fit(np.eye(3) * factor) for factor in (1.0, 2.0)]


# --- operations: each begins with a state, changes it, and says how far it is ------------------------------


@dataclass(frozen=True)
class Operation:
    """``count`` says how many times ``act`` has been done, after checking that the state is whole."""

    begin: Callable[[Path], None]
    act: Callable[[Path], None]
    count: Callable[[Path], int]


def replaced(folder: Path) -> int:
    content = (folder / "file").read_bytes()
    number = len(content) // 1000
    assert content == bytes([number]) * 1000 * number
    return number - 1


def write_next(folder: Path) -> None:
    number = replaced(folder) + 2
    write_whole(folder / "file", bytes([number]) * 1000 * number)


def entries(folder: Path) -> int:
    log = MembershipLog(folder / "state.db")
    found = log.verify()
    assert [entry.site for entry in log] == [f"site{number}" for number in range(found)]
    assert log.head[0] == found
    return found


def join(folder: Path) -> None:
    log = MembershipLog(folder / "state.db")
    log.append("join", f"site{len(list(log))}", classes=[0, 1])


def spend(folder: Path) -> None:
    Ledger.load(folder / "ledger").spend(Event("survey", "record", 0.5))


def admit(folder: Path) -> None:
    QueryGuard(None, 100, folder / "state.db").admit("me", 1)


def save_model(folder: Path) -> None:
    io.save(MODELS[1], folder / "model")


def saved(folder: Path) -> int:
    found = io.load(folder / "model").transform(np.eye(3))
    return [np.array_equal(found, model.transform(np.eye(3))) for model in MODELS].index(True)


def registry(folder: Path) -> Any:
    pytest.importorskip("flwr")
    from onefold.federated.flower.folders import ServerFolder
    from onefold.federated.flower.registry import Registry

    own = ServerFolder(folder)
    own.prepare()
    return Registry(own)


def enter(folder: Path) -> None:
    found = registry(folder)
    for site in found.sites:
        profile = Profile(site, (0, 1), "euclidean", None, 3, None, "a" * 64)
        found.admit(site, profile)
        if site not in found.log.members():  # pragma: no cover  # the failure that is looked for
            raise AssertionError("a member that is not in the log")


def members(folder: Path) -> int:
    found = registry(folder)
    found.log.verify()
    assert set(found.members) <= set(found.log.members())
    return len(found.members)


def approvals(folder: Path) -> Approvals:
    return Approvals(SiteLog(folder / "state.db"), "north")


def signed(number: int) -> Signature:
    pytest.importorskip("cryptography")
    return SigningKey("ward", bytes(32)).sign(Query(f"q{number}", np.zeros((1, 2))), "ab" * 32)


def wait_for_approval(folder: Path) -> None:
    with pytest.raises(QueryRefused):
        approvals(folder).admit(signed(0), 1, "queriers")


def approved(folder: Path) -> int:
    found = approvals(folder)
    found.log.verify()
    decided = [entry.decision for entry in found.entries()] == [OwnerDecision.APPROVED]
    assert not decided or "approved" in [entry.event for entry in found.log]
    return int(decided)


def replays(folder: Path) -> int:
    with Store(folder / "state.db").reading() as db:
        return int(db.execute("SELECT count(*) FROM replays").fetchone()[0])


def site_folder(folder: Path) -> Any:
    pytest.importorskip("flwr")
    from onefold.federated.flower.folders import SiteFolder, SiteSettings

    own = SiteFolder(folder)
    if not own.settings_file.exists():
        SiteSettings("north", "127.0.0.1", 8443).save(own.settings_file)
    return own


def fit_site(number: int) -> Callable[[Path], None]:
    """Moments, then a model with plain sums: each has files that the other has not."""

    def fitted(folder: Path) -> None:
        from onefold.federated.flower.site_app import store_model, store_moments

        own = site_folder(folder)
        if number == 0:
            store_moments(own, MOMENTS_SENT, recipe={"fit": 0})
        else:
            store_model(own, SITE_MODEL, send_plain_sums=True, recipe={"fit": 1})

    return fitted


def fitted_sites(folder: Path) -> int:
    """Which fit the folder has: every file that the profile speaks of is there and can be read."""
    from onefold.federated.flower.keeping import read_profile, recipe_of, served_model
    from onefold.federated.flower.sums import kept_sums

    own = site_folder(folder)
    profile = read_profile(own)
    number = int(profile.measure != "moments")
    assert kept_sums(own, profile) is not None
    assert recipe_of(own)["fit"] == number
    if number:
        with served_model(own, profile.model_digest) as path:
            assert LocalModel.load(path).digest() == SITE_MODEL.digest()
    return number


SITE_SCHEMA = Schema(
    [Field("x", low=0.0, high=1.0), Field("kind", "string", "label", levels=("a", "b"))], missing_values=("",)
)
SITE_ROWS = {"x": [0.1, 0.2, 0.8, 0.9] * 2, "kind": ["a", "a", "b", "b"] * 2}
SITE_MODEL = LocalModel(default_classifier(SITE_SCHEMA).set_params(measure="euclidean"), schema=SITE_SCHEMA)
SITE_MODEL.fit(SITE_ROWS)
MOMENTS_SENT = release_moments(SITE_ROWS, None, declared_moments(1.0, schema=SITE_SCHEMA), schema=SITE_SCHEMA)


OPERATIONS = {
    "site": Operation(fit_site(0), fit_site(1), fitted_sites),
    "approval": Operation(
        wait_for_approval, lambda folder: [approvals(folder).approve("ward", "queriers")], approved
    ),
    "replays": Operation(
        lambda folder: signed(0),
        lambda folder: Replays(folder / "state.db").enter(signed(replays(folder))),
        replays,
    ),
    "file": Operation(lambda folder: write_whole(folder / "file", b"\1" * 1000), write_next, replaced),
    "empty log": Operation(lambda folder: None, join, entries),
    "log": Operation(lambda folder: [join(folder), join(folder)], join, entries),  # type: ignore[arg-type,return-value]
    "ledger": Operation(
        lambda folder: Ledger(limit_epsilon=99.0).save(folder / "ledger"),
        spend,
        lambda folder: len(Ledger.load(folder / "ledger").events),
    ),
    "guard": Operation(
        lambda folder: None, admit, lambda folder: QueryGuard(None, 100, folder / "state.db").spent("me")
    ),
    "model": Operation(lambda folder: io.save(MODELS[0], folder / "model"), save_model, saved),
    "registry": Operation(lambda folder: registry(folder).invite("north", ""), enter, members),
}
ONCE = ("model", "registry", "approval", "site")  # doing it again changes nothing


# --- faults -----------------------------------------------------------------------------------------------


class Kill:
    """End this process, as kill -9 does, at a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, step: str, *what: Any) -> None:
        if self.at == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        self.at -= 1


class Full:
    """A disk that is full at a step."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, step: str, *what: Any) -> None:
        self.at -= 1
        if self.at == -1:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def in_child(act: Callable[[Path], None], folder: Path, fault: Callable[..., None] | None) -> bool:
    """Whether the act ended in a child that meets the fault; a child that is killed does not end."""
    child = os.fork()
    if child == 0:
        try:
            files.fault = fault
            act(folder)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(9)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return not os.WIFSIGNALED(status)


def steps_of(operation: Operation, folder: Path) -> int:
    """Through how many fault points the act passes."""
    folder.mkdir()
    operation.begin(folder)
    operation.count(folder)  # makes the store where there is none
    passed: list[str] = []
    files.fault = lambda step, *what: passed.append(step)
    try:
        operation.act(folder)
    finally:
        files.fault = None
    assert len(passed) >= 2
    return len(passed)


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.part")]


@pytest.fixture(autouse=True)
def no_fault():
    yield
    files.fault = None


# --- kill -9 ----------------------------------------------------------------------------------------------


# A process that is killed leaves its files to the system: they need not be on a disk, which syncs slowly.
MEMORY = Path("/dev/shm")


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(prefix="onefold-crashes-", dir=MEMORY) as folder:
        yield Path(folder)


def kill_twice(name: str, root: Path, stride: int) -> None:
    """Kill an operation at every step, and what comes after it at every step or at some of them."""
    operation = OPERATIONS[name]
    n_steps = steps_of(operation, root / "counted")
    for first in range(n_steps):
        for second in range(first % stride, n_steps + 2, stride):
            folder = root / f"{first} {second}"
            folder.mkdir()
            operation.begin(folder)
            before = done = operation.count(folder)
            for at in (first, second):
                acknowledged = in_child(operation.act, folder, Kill(at))
                found = operation.count(folder)
                least, most = done + acknowledged, done + 1
                assert min(least, before + 1 if name in ONCE else least) <= found <= most
                done = found
            operation.act(folder)
            assert operation.count(folder) == (before + 1 if name in ONCE else done + 1)
            assert not leftovers(folder)
            shutil.rmtree(folder)


@pytest.mark.merge
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_every_step_and_soon_again(name, memory):
    # The second time at two of the steps or so, others for each first one.
    kill_twice(name, memory, stride=41 if name == "site" else 7)


@pytest.mark.nightly
@pytest.mark.parametrize("name", OPERATIONS)
def test_killed_at_every_step_and_twice_in_a_row(name, memory):
    kill_twice(name, memory, stride=17 if name == "site" else 1)


def test_part_that_is_being_written_is_not_swept_away(tmp_path):
    with atomic_write(tmp_path / "file") as file:
        file.write(b"slow")
        write_whole(tmp_path / "file", b"quick")
        sweep_parts(tmp_path)
        assert len(leftovers(tmp_path)) == 1
    assert (tmp_path / "file").read_bytes() == b"slow"
    assert not leftovers(tmp_path)


def test_only_our_own_leavings_are_swept_away(tmp_path):
    foreign = ["video.part", ".file.part", ".file.ABCDEFGH.part", ".file.abcdefgh.part.txt"]
    for name in (*foreign, ".file.abcd_f1h.part", ".other.abcdefgh.part"):
        (tmp_path / name).write_bytes(b"")
    sweep_parts(tmp_path, "file")
    assert sorted(os.listdir(tmp_path)) == sorted([*foreign, ".other.abcdefgh.part"])
    sweep_parts(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted(foreign)


def test_every_change_is_followed_by_a_sync_of_its_folder(tmp_path):
    passed: list[str] = []
    files.fault = lambda step, *what: passed.append(step)
    write_whole(tmp_path / "file", b"x")
    assert passed == ["make", "write", "sync", "rename", "sync folder"]
    passed.clear()
    Store(tmp_path / "state.db").create()
    assert passed == ["make", "commit", "committed", "sync", "sync folder"]
    passed.clear()
    remove_file(tmp_path / "state.db")
    assert passed == ["remove", "sync folder"]
    assert os.listdir(tmp_path) == ["file"]


# --- a full disk ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", later(OPERATIONS, lambda name: name != "site"))
def test_full_disk_at_every_step_leaves_a_whole_state_and_names_the_file(name, memory):
    operation = OPERATIONS[name]
    for at in range(steps_of(operation, memory / "counted")):
        folder = memory / str(at)
        folder.mkdir()
        operation.begin(folder)
        before = operation.count(folder)
        files.fault = Full(at)
        with pytest.raises(OSError, match="No space left on device") as caught:
            operation.act(folder)
        files.fault = None
        if caught.value.filename is not None:
            assert Path(caught.value.filename).is_relative_to(folder)
        assert before <= operation.count(folder) <= before + 1
        assert not leftovers(folder)
        done = operation.count(folder)
        operation.act(folder)
        assert operation.count(folder) == (before + 1 if name in ONCE else done + 1)


def with_small_files(act: Callable[[Path], None], largest: int) -> Callable[[Path], None]:
    """The act in a process that can write no byte of a file behind this one."""

    def limited(folder: Path) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        with suppress(OSError):
            act(folder)
            raise AssertionError("the disk took it all")

    return limited


def settled(folder: Path) -> dict[str, bytes]:
    """Files without locks and without what SQLite keeps beside a database until it is opened again."""
    passing = (".lock", "-shm", "-wal")
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(passing)}


@pytest.mark.parametrize("name", ["file", "log", "ledger", "model"])
def test_file_system_that_takes_only_a_part_leaves_the_old_state(name, tmp_path):
    operation = OPERATIONS[name]
    operation.begin(tmp_path)
    before = operation.count(tmp_path)
    contents = settled(tmp_path)
    assert in_child(with_small_files(operation.act, 100), tmp_path, None)
    assert settled(tmp_path) == contents
    operation.act(tmp_path)
    assert operation.count(tmp_path) == before + 1


def test_command_says_in_one_line_that_the_disk_is_full(tmp_path):
    Ledger().save(tmp_path / "ledger")
    code = (
        "import resource, signal, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (50, 50));"
        "from onefold.cli.app import main; sys.exit(main(['ledger', 'new', sys.argv[1]]))"
    )
    new = tmp_path / "new"
    done = subprocess.run([sys.executable, "-c", code, str(new)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"onefold: error: {new}: No space left on device\n"
    assert not new.exists()
    assert not leftovers(tmp_path)
