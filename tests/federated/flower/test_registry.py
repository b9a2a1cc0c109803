"""The server's list of sites: exact, kept over restarts, safe for several processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from onefold.exceptions import FileFormatError, InvalidInputError, MessageError
from onefold.federated.contract import schema_fields
from onefold.federated.flower.folders import ServerFolder, ServerSettings, private_folder
from onefold.federated.flower.registry import Registry, Status
from onefold.federated.messages import Profile
from onefold.tables import Field, Schema

DIGEST = "ab" * 32


def profile(site: str, **changes: object) -> Profile:
    values = {"classes": (1, 2), "measure": "euclidean", "scale": None, "n_features": 3}
    rest = {"guarantee": None, "model_digest": DIGEST}
    return Profile(site, **{**values, **rest, **changes})  # type: ignore[arg-type]


@pytest.fixture
def registry(tmp_path: Path) -> Registry:
    folder = ServerFolder(private_folder(tmp_path / "server"))
    ServerSettings("127.0.0.1", 8443).save(folder.settings_file)
    folder.prepare()
    return Registry(folder)


def again(registry: Registry) -> Registry:
    """The registry as another process would see it."""
    return Registry(ServerFolder(registry.folder.root))


def test_site_can_join_leave_and_join_again(registry: Registry) -> None:
    registry.invite("north", "key-n")
    assert registry.members == {}
    assert registry.admit("north", profile("north")) is Status.MEMBER
    assert again(registry).members["north"].profile.model_digest == DIGEST
    registry.admit("north", profile("north"))  # the same model after a restart is no news
    registry.remove("north")
    assert again(registry).members == {}
    assert again(registry).sites["north"].profile is None
    assert registry.admit("north", profile("north")) is Status.REMOVED
    registry.invite("north", "key-n")
    registry.admit("north", profile("north", model_digest="cd" * 32))
    assert [(entry.event.value, entry.site) for entry in registry.log] == [
        ("join", "north"),
        ("leave", "north"),
        ("re-join", "north"),
    ]
    assert registry.log.verify() == 3


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"measure": "rms", "scale": 1.0}, "other-measure"),
        ({"n_features": 4}, "other-features"),
        ({"columns": "cd" * 32}, "other-columns"),
        ({"classes": ("a", "b")}, "other-labels"),
    ],
)
def test_site_that_cannot_be_compared_is_refused(
    registry: Registry, change: dict[str, object], reason: str
) -> None:
    for name in ("north", "south"):
        registry.invite(name, f"key-{name}")
    registry.admit("north", profile("north", columns="ef" * 32))
    assert registry.admit("south", profile("south", **change)) is Status.REFUSED
    assert registry.sites["south"].reason == reason
    assert list(registry.members) == ["north"]


AGE = Field("age", low=0, high=100)
WARD = Field("ward", "string", levels=("a", "b"))


def contract(*fields: Field, **options: object) -> dict[str, object]:
    schema = Schema(fields, **options)  # type: ignore[arg-type]
    return {"schema": schema.digest, "schema_fields": schema_fields(schema.field_digests)}


@pytest.mark.parametrize(
    "ours, theirs, reason",
    [
        (
            contract(AGE, WARD),
            contract(Field("age", low=0, high=120), WARD),
            "other-schema: field 'age'",
        ),
        (
            contract(AGE, WARD),
            contract(WARD, AGE),
            "other-schema: field 1 is 'age' in the one schema and 'ward' in the other",
        ),
        (
            contract(AGE, WARD),
            contract(AGE),
            "other-schema: field 2 is 'ward' in the one schema and no further field in the other",
        ),
        (
            contract(AGE, WARD),
            contract(AGE, WARD, missing_values=("", "?")),
            "other-schema: missingValues, rowsAbout, rowsPerPerson or the source",
        ),
        (contract(AGE, WARD), {}, "no-schema: the other sites use a schema"),
        ({}, contract(AGE, WARD), "other-schema: the other sites use none"),
        (contract(AGE), {**contract(AGE), "schema": "cd" * 32}, "other-schema: the digest"),
    ],
    ids=["range", "order", "fewer fields", "missing values", "no schema", "schema", "only the digest"],
)
def test_site_with_another_schema_is_refused_by_the_first_difference(
    registry: Registry, ours: dict[str, object], theirs: dict[str, object], reason: str
) -> None:
    for name in ("north", "south"):
        registry.invite(name, f"key-{name}")
    registry.admit("north", profile("north", **ours))
    # What follows from the schema differs as well, and is not what is told.
    other = {**theirs, "measure": "rms", "scale": 2.0, "n_features": 7}
    assert registry.admit("south", profile("south", **other)) is Status.REFUSED
    assert again(registry).sites["south"].reason == reason
    assert registry.admit("south", profile("south", **ours)) is Status.MEMBER  # the file was corrected


def test_reason_stays_one_short_line_whatever_the_fields_are_called(registry: Registry) -> None:
    for name in ("north", "south"):
        registry.invite(name, f"key-{name}")
    registry.admit("north", profile("north", **contract(Field("\\" * 400, low=0, high=1))))
    registry.admit("south", profile("south", **contract(Field("'\n" * 400, low=0, high=1))))
    reason = registry.sites["south"].reason
    assert reason is not None
    assert reason.isprintable()
    assert len(reason) <= 500


def test_site_with_another_scale_is_refused(registry: Registry) -> None:
    for name in ("north", "south"):
        registry.invite(name, f"key-{name}")
    registry.admit("north", profile("north", measure="rms", scale=1.0))
    assert registry.admit("south", profile("south", measure="rms", scale=1.1)) is Status.REFUSED


def test_site_with_the_profile_of_another_is_refused(registry: Registry) -> None:
    registry.invite("north", "key-n")
    assert registry.admit("north", profile("south")) is Status.REFUSED
    assert registry.sites["north"].reason == "wrong-name"


def test_second_site_with_the_same_name_or_key_is_refused(registry: Registry) -> None:
    registry.invite("north", "key")
    with pytest.raises(InvalidInputError, match="its own"):
        registry.invite("south", "key")
    with pytest.raises(InvalidInputError, match="no site"):
        registry.remove("nobody")


def test_invited_site_may_change_its_key_until_it_joins(registry: Registry) -> None:
    registry.invite("north", "key that init made")
    registry.invite("north", "key")
    registry.invite("north", "key")
    assert [site.public_key for site in registry.sites.values()] == ["key"]
    registry.admit("north", profile("north"))
    with pytest.raises(InvalidInputError, match="already"):
        registry.invite("north", "another")


def test_columns_without_names_are_not_compared(registry: Registry) -> None:
    for name, columns in (("north", None), ("south", "cd" * 32), ("west", "cd" * 32)):
        registry.invite(name, f"key-{name}")
        assert registry.admit(name, profile(name, columns=columns)) is Status.MEMBER


def test_removed_site_loses_its_model(registry: Registry) -> None:
    registry.invite("north", "key")
    registry.admit("north", profile("north"))
    path = registry.folder.models / "north.onefold"
    path.write_bytes(b"model")
    registry.remove("north")
    assert not path.exists()


@pytest.mark.parametrize("change", ["status = 'perhaps'", "node_id = 'x'", "profile = x'00'"])
def test_damaged_registry_is_refused(registry: Registry, change: str) -> None:
    registry.invite("north", "key")
    with registry.store.transaction() as db:
        db.execute(f"UPDATE sites SET {change}")
    with pytest.raises((FileFormatError, MessageError)):
        registry.members  # noqa: B018


@pytest.mark.merge
def test_two_processes_do_not_lose_changes_to_the_registry(registry: Registry) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from onefold.federated.flower.folders import ServerFolder\n"
        "from onefold.federated.flower.registry import Registry\n"
        "registry = Registry(ServerFolder(Path(sys.argv[1])))\n"
        "[registry.invite(f'{sys.argv[2]}{i}', f'key-{sys.argv[2]}{i}') for i in range(20)]\n"
    )
    runs = [
        subprocess.Popen([sys.executable, "-c", script, str(registry.folder.root), name]) for name in "ab"
    ]
    assert [run.wait() for run in runs] == [0, 0]
    assert len(registry.sites) == 40


def test_removal_that_is_broken_off_deletes_nothing_of_a_site_that_stays(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.invite("north", "key-n")
    registry.admit("north", profile("north"))
    model, sums = registry.folder.models / "north.onefold", registry.folder.sums_of("north")
    for path in (model, sums):
        path.write_bytes(b"x")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("onefold.federated.flower.registry.put_value", full)
        with pytest.raises(OSError, match="No space"):
            registry.remove("north")
    assert again(registry).members
    assert model.exists()
    assert sums.exists()
    with monkeypatch.context() as patch:
        patch.setattr(Registry, "_delete_files", full)  # killed after the list was written
        with pytest.raises(OSError, match="No space"):
            registry.remove("north")
    assert not again(registry).members
    again(registry).recover()
    assert not model.exists()
    assert not sums.exists()


def test_run_that_goes_on_deletes_what_a_killed_removal_has_left(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = again(registry)  # another process than the one that is killed
    for name in ("north", "south"):
        registry.invite(name, f"key-{name}")
        registry.admit(name, profile(name))
        registry.folder.sums_of(name).write_bytes(b"x")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Registry, "_delete_files", killed)
        with pytest.raises(KeyboardInterrupt):
            registry.remove("north")
    running.finish_removals()
    assert not registry.folder.sums_of("north").exists()
    assert registry.folder.sums_of("south").exists()
    before = registry.store.path.read_bytes()
    running.finish_removals()  # nothing left: the list is not written again
    assert registry.store.path.read_bytes() == before


def events(registry: Registry) -> list[str]:
    return [entry.event.value for entry in registry.log]


def test_member_that_is_refused_later_leaves_the_log_too(registry: Registry) -> None:
    for name in ("north", "south"):
        registry.invite(name, f"key-{name}")
        registry.admit(name, profile(name))
    assert registry.admit("south", profile("south", n_features=4)) is Status.REFUSED
    assert registry.log.members() == tuple(registry.members) == ("north",)
    assert registry.admit("south", profile("south")) is Status.MEMBER
    assert events(registry) == ["join", "join", "leave", "re-join"]


@pytest.mark.parametrize("step", ["admit", "remove"])
def test_list_and_log_change_together_or_not_at_all(
    registry: Registry, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    registry.invite("north", "key-n")
    if step == "remove":
        registry.admit("north", profile("north"))
    before, stamp = events(registry), registry.stamp()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("onefold.federated.flower.registry.put_value", killed)  # behind log and list
        with pytest.raises(KeyboardInterrupt):
            registry.admit("north", profile("north")) if step == "admit" else registry.remove("north")
    assert events(again(registry)) == before
    assert again(registry).stamp() == stamp
    assert again(registry).log.members() == tuple(again(registry).members)


def test_what_a_removed_site_sent_meanwhile_is_deleted_at_the_next_start(registry: Registry) -> None:
    registry.invite("north", "key-n")
    registry.remove("north")
    sent = (registry.folder.models / "north.onefold", registry.folder.sums_of("north"))
    for path in sent:
        path.write_bytes(b"late")
    again(registry).recover()
    assert not any(path.exists() for path in sent)


def test_number_of_a_site_may_be_as_large_as_flower_makes_it(registry: Registry) -> None:
    registry.invite("north", "key-n")
    registry.set_node("north", 2**64 - 1)
    assert again(registry).sites["north"].node_id == 2**64 - 1
