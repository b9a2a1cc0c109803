"""Sums without noise, without a network: who sends them, what the server takes, and what it makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from onefold import AutoencoderClassifier
from onefold.cli.app import main
from onefold.exceptions import FederationError, InvalidInputError
from onefold.federated import GlobalClassifier, JoinedFederation, LocalModel, Offset, joined_server
from onefold.federated.contract import default_classifier
from onefold.federated.flower import Federation, Site, site_app
from onefold.federated.flower.folders import ServerFolder, ServerSettings, SiteFolder
from onefold.federated.flower.registry import NO_SUMS, OTHER_SUMS, Registry, Status
from onefold.federated.flower.rounding import default_bound
from onefold.federated.flower.server_app import Coordinator, Reception
from onefold.federated.flower.site_app import KEPT_OUT, PROFILE, SUMS, answer_message, from_records
from onefold.federated.flower.spool import Request
from onefold.federated.flower.sums import KeptSums, kept_sums
from onefold.federated.joined_server import declared_agreement
from onefold.federated.messages import (
    Answers,
    Failure,
    FailureCode,
    Message,
    PlainSums,
    Profile,
    PublicScores,
    Query,
    Refusal,
    from_bytes,
)
from onefold.privacy import OptimalNoise, domain_of
from onefold.tables import Field, Schema
from onefold.tables.schema import AS_THEY_STAND
from reference.site_files import sums_file

NAMES = ("north", "south", "west")
FIELDS = (
    Field("age", low=0, high=100),
    Field("ward", "string", levels=("a", "b", "c")),
    Field("sick", "string", "label", levels=("no", "rare", "yes")),
)
SCHEMA = Schema(FIELDS)


def table(seed: int, n: int = 60) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    sick = rng.random(n) < 0.5
    ward = np.where(rng.random(n) < 0.7, np.where(sick, "a", "b"), "c")
    return {
        "age": (30 + 30 * sick + 10 * rng.standard_normal(n)).clip(0, 100).round(1).tolist(),
        "ward": ward.tolist(),
        "sick": np.where(sick, "yes", "no").tolist(),
    }


def model_of(seed: int, schema: Schema = SCHEMA) -> LocalModel:
    return LocalModel(default_classifier(schema).set_params(measure="euclidean"), schema=schema).fit(
        table(seed)
    )


MODELS = {name: model_of(number) for number, name in enumerate(NAMES)}
ROWS = SCHEMA.transform(table(9, 25))


def expected(*names: str) -> GlobalClassifier:
    """The same federation in this process."""
    agreed = declared_agreement(SCHEMA)
    server = JoinedFederation(agreed)
    for name in names:
        server.add(name, MODELS[name].joined_sums(agreed).to_bytes())
    offset, together = server.publish(), GlobalClassifier()
    for name in names:
        together.add(name, LocalModel._of(MODELS[name].estimator_, None).join(offset))
    return together


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lift of few directions, so that sums are small."""
    monkeypatch.setattr(joined_server, "N_DIRECTIONS", 16)


class Present:
    """A node as Flower lists it."""

    def __init__(self, node_id: int, since: str = "today") -> None:
        self.node_id, self.last_activated_at = node_id, since


class Network:
    """A server and its sites in this process: a message that is sent is answered at once."""

    def __init__(self, root: Path, mode: str = "query", most_rows: int | None = None) -> None:
        made = Federation.create(root / "f", NAMES, insecure=True, mode=mode, most_rows=most_rows)
        self.server, self.root = made.folder, root / "f"
        self.federation = made
        self.coordinator = Coordinator(None, self.server)
        self.coordinator.send = self.send  # type: ignore[method-assign]
        self.reception = self.coordinator.reception = Reception(self.server, Registry(self.server), self.send)
        self.registry = self.reception.registry
        self.kinds: list[str] = []
        self.told: dict[str, str] = {}
        self.change: Callable[[Message], Message] = lambda message: message
        self._replies: dict[str, list[Message]] = {}
        self._looks = 0

    def site(self, name: str) -> SiteFolder:
        return SiteFolder(self.root / "sites" / name)

    def send(self, kind: str, nodes: dict[str, int], messages: Any, *_: object) -> dict[str, str]:
        numbers = {}
        for site, node in nodes.items():
            folder = self.site(NAMES[node])
            self.kinds.append(kind)
            if kind == PROFILE:
                reply: list[Message] = [site_app.read_profile(folder)]
            elif kind == SUMS:
                reply = [site_app._sums(folder)]
            elif kind == KEPT_OUT:
                self.told[NAMES[node]] = messages[0].reason
                reply = [site_app.read_profile(folder)]
            else:
                scores = messages[0] if isinstance(messages[0], PublicScores) else None
                queries = [message for message in messages if isinstance(message, Query)]
                reply = [site_app.answer(folder, query, "me", None, scores) for query in queries]
            number = str(len(self._replies))
            self._replies[number] = [self.change(from_bytes(message.to_bytes())) for message in reply]
            numbers[number] = site
        return numbers

    def come(self, name: str, *, sums: bool = True, model: LocalModel | None = None) -> Status:
        """A site connects with a model; where it stands then."""
        Site(self.site(name).root).store(MODELS[name] if model is None else model, send_plain_sums=sums)
        return self.look(name)

    def look(self, name: str) -> Status:
        self._looks += 1
        self.reception.look([Present(NAMES.index(name), str(self._looks))])
        while self.reception.waiting:
            for number in self.reception.waiting:
                self.reception.take(number, self._replies[number])
        return self.registry.sites[name].status

    def ask(self, *names: str) -> dict[str, Any]:
        """The messages of the sites that are there."""
        self.reception._names = {NAMES.index(name): name for name in names}
        self.reception._nodes = dict.fromkeys(self.reception._names, "today")
        exchange = self.coordinator.ask([Request(Query("q", ROWS), "me", 60.0)])
        for number in list(exchange.waiting):
            exchange.take(number, self._replies[number])
        return {message.site: message for message in exchange.replies.get("q", [])}  # type: ignore[union-attr]

    def measures(self, *names: str) -> np.ndarray:
        said = self.ask(*names)
        profiles = {name: self.registry.members[name].profile for name in names}
        result = GlobalClassifier().combine(said, names, query=Query("q", ROWS), profiles=profiles)
        assert not result.partial, result.refused
        return result.measures


@pytest.fixture
def net(tmp_path: Path) -> Network:
    return Network(tmp_path)


# --- joining, answering, leaving --------------------------------------------------------------------------


def test_sites_that_send_sums_answer_as_a_joined_federation_in_one_process(
    net: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [net.come(name) for name in NAMES] == [Status.MEMBER] * 3
    np.testing.assert_array_equal(net.measures(*NAMES), expected(*NAMES).measures(ROWS))
    said = net.ask("north")["north"]
    assert isinstance(said, Answers)
    assert said.measure == "joined"
    status = {site.name: site for site in net.federation.status().sites}
    assert status["north"].sums
    assert status["north"].measure == "joined"
    assert main(["federate", "status", "--folder", str(net.server.root)]) == 0
    assert capsys.readouterr().out.count("the server has plain sums of its rows") == 3


def test_person_that_a_site_forgets_leaves_no_trace_at_the_server(tmp_path: Path) -> None:
    """After the site has connected again every answer is that of a federation without the person."""
    schema = Schema((Field("who", "string", "person"), *FIELDS))
    rows = {"who": [f"p{row // 2}" for row in range(60)], **table(5)}
    rest = {name: [*column[:20], *column[22:]] for name, column in rows.items()}  # without p10
    found = []
    for folder, steps in (("forgets", (rows, "p10", rows)), ("never had", (rest,))):
        net = Network(tmp_path / folder)
        for number, name in enumerate(("south", "west")):
            others = {"who": ["q"] * 60, **table(number)}
            Site(net.site(name).root).fit(others, schema=schema, send_plain_sums=True)
            assert net.look(name) is Status.MEMBER
        north = Site(net.site("north").root)
        for step in steps:
            if isinstance(step, str):
                north.forget(step)
            else:
                north.fit(step, schema=schema, send_plain_sums=True)
                assert net.look("north") is Status.MEMBER
        sums = net.server.sums_of("north").read_bytes()
        scores = net.reception.sums.scores(net.registry.members)
        assert scores is not None
        found.append((sums, scores.content, net.measures(*NAMES).tobytes()))
    assert found[0] == found[1]


def test_removed_site_leaves_no_trace_and_may_come_again(net: Network) -> None:
    for name in NAMES:
        net.come(name)
    everyone = net.measures(*NAMES)
    net.federation.remove("south")
    assert not net.server.sums_of("south").exists()
    two = net.measures("north", "west")
    np.testing.assert_array_equal(two, expected("north", "west").measures(ROWS))
    assert not np.array_equal(two, everyone)
    net.federation.add("south")
    net.come("south")
    np.testing.assert_array_equal(net.measures(*NAMES), everyone)


def test_site_that_was_fitted_anew_replaces_its_sums(net: Network) -> None:
    net.come("north", model=MODELS["south"])
    net.come("west")
    assert net.kinds.count(SUMS) == 2
    net.look("west")  # connected again: nothing is sent twice
    assert net.kinds.count(SUMS) == 2
    net.come("north")
    assert net.kinds.count(SUMS) == 3
    np.testing.assert_array_equal(net.measures("north", "west"), expected("north", "west").measures(ROWS))


def test_server_that_starts_again_publishes_the_same_from_its_files(net: Network) -> None:
    for name in NAMES:
        net.come(name)
    members = net.registry.members
    again = KeptSums(net.server).scores(members)
    before = net.reception.sums.scores(members)
    assert again is not None
    assert before is not None
    assert again.content == before.content
    for path in net.server.sums.iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_absent_site_counts_in_the_sums_and_is_missing_from_the_answers(net: Network) -> None:
    for name in NAMES:
        net.come(name)
    answers = net.ask("north")
    assert set(answers) == {"north"}
    offset = expected(*NAMES)._models()[0].offset_
    assert offset is not None
    assert answers["north"].scale == offset.weight


def test_without_its_file_no_site_is_asked_and_all_are_not_ready(net: Network) -> None:
    for name in NAMES:
        net.come(name)
    net.server.sums_of("south").write_bytes(b"nonsense")
    net.reception.sums = KeptSums(net.server)
    said = net.ask(*NAMES)
    assert {message.code for message in said.values()} == {FailureCode.NOT_READY}
    net.look("south")  # it is asked again, and all is well
    np.testing.assert_array_equal(net.measures(*NAMES), expected(*NAMES).measures(ROWS))


def test_newcomer_is_not_blamed_for_the_damaged_file_of_another_site(net: Network) -> None:
    net.come("north")
    net.server.sums_of("north").write_bytes(b"nonsense")
    net.reception.sums = KeptSums(net.server)
    assert net.come("south") is Status.REFUSED
    assert net.told == {"south": "not-ready: the server cannot read the sums of another site"}
    net.look("north")
    assert net.look("south") is Status.MEMBER


def test_influence_of_each_site_is_measured_from_what_the_server_keeps(net: Network) -> None:
    with pytest.raises(FederationError, match="no site of this federation sends plain sums"):
        net.federation.plain_sums()
    for name in NAMES:
        net.come(name)
    found = net.federation.plain_sums()
    assert [each.site for each in found.influence()] == list(NAMES)
    assert found.publish().to_bytes() == expected(*NAMES)._models()[0].offset_.to_bytes()  # type: ignore[union-attr]


# --- consent ----------------------------------------------------------------------------------------------


def test_site_without_sums_among_sites_with_sums_is_kept_out_in_one_line(net: Network) -> None:
    net.come("north")
    assert net.come("south", sums=False) is Status.REFUSED
    assert net.told == {"south": NO_SUMS}
    assert list(net.registry.members) == ["north"]
    assert net.come("south") is Status.MEMBER  # its operator decided otherwise


def test_site_with_sums_among_sites_without_is_not_asked_for_them(net: Network) -> None:
    net.come("north", sums=False)
    assert net.come("south") is Status.REFUSED
    assert net.told == {"south": OTHER_SUMS}
    assert SUMS not in net.kinds
    assert list(net.server.sums.iterdir()) == []
    said = net.ask("north")["north"]
    assert said.measure == "euclidean"


def test_server_in_model_mode_takes_no_sums(tmp_path: Path) -> None:
    net = Network(tmp_path, mode="model")
    assert net.come("north") is Status.REFUSED
    assert net.told == {"north": "other-sums: a server in model mode takes none"}
    assert SUMS not in net.kinds


@pytest.mark.parametrize("told", [True, False])
def test_sums_leave_only_if_the_fit_was_told_so(
    net: Network, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the server asks for, and however often."""
    folder = net.site("north")
    Site(folder.root).fit(table(0), schema=SCHEMA, send_plain_sums=told)
    assert sums_file(folder).exists() is told
    monkeypatch.setenv("ONEFOLD_SITE", str(folder.root))
    reply = answer_message(_envelope(SUMS), None)
    (message,) = from_records(reply.content)
    if told:
        assert isinstance(message, PlainSums)
        assert message.content == MODELS["north"].joined_sums(declared_agreement(SCHEMA)).to_bytes()
    else:
        assert isinstance(message, Failure)
        assert message.code is FailureCode.NOT_PRIVATE
    Site(folder.root).fit(table(0), schema=SCHEMA)  # fitted anew without the word
    assert not sums_file(folder).exists()
    assert Site(folder.root).profile.sums is None


def _envelope(kind: str) -> Any:
    from flwr.app import Metadata, RecordDict
    from flwr.app.message import make_message

    about = {"run_id": 1, "message_id": "m", "src_node_id": 1, "dst_node_id": 2, "reply_to_message_id": ""}
    metadata = Metadata(**about, group_id="", created_at=1.7e9, ttl=1e10, message_type=kind)
    return make_message(metadata=metadata, content=RecordDict())


def test_site_withdraws_its_sums(net: Network) -> None:
    net.come("north")
    site = Site(net.site("north").root)
    assert site.sends_plain_sums
    site.configure(per_minute=7000)  # says nothing about sums
    assert site.sends_plain_sums
    site.configure(withdraw_plain_sums=True)
    assert not site.sends_plain_sums
    assert kept_sums(site.folder, site.profile) is None
    assert net.look("north") is Status.MEMBER  # alone it may answer by distances
    assert not net.server.sums_of("north").exists()
    assert net.ask("north")["north"].measure == "euclidean"


def test_plain_sums_need_a_schema_distances_and_no_noise(net: Network) -> None:
    site = Site(net.site("north").root)
    noise = OptimalNoise(1.0, sensitivity=domain_of(SCHEMA))
    for options, line in (
        ({"schema": AS_THEY_STAND}, "plain sums need a schema"),
        ({"mechanism": noise}, "do not go with noise"),
        ({"estimator": default_classifier(SCHEMA)}, "plain sums need distances"),
        ({"estimator": AutoencoderClassifier(measure="rms")}, "plain sums need distances"),
    ):
        given: dict[str, Any] = {"schema": SCHEMA, **options}
        rows, y = (np.ones((4, 2)), [0, 0, 1, 1]) if given["schema"].plain else (table(0), None)
        with pytest.raises(InvalidInputError, match=line):
            site.fit(rows, y, send_plain_sums=True, **given)
        assert not sums_file(site.folder).exists()
        assert not site.folder.ledger.exists()  # nothing was spent on it


def test_failed_store_leaves_the_earlier_model(net: Network) -> None:
    site = Site(net.site("north").root).store(MODELS["north"])
    with pytest.raises(InvalidInputError, match="does not have its rows"):
        site.store(LocalModel._of(MODELS["north"].estimator_, SCHEMA), send_plain_sums=True)
    assert site.profile.model_digest == MODELS["north"].digest()


def test_site_takes_scores_of_its_own_contract_only(net: Network) -> None:
    net.come("north")
    folder, query = net.site("north"), Query("q", ROWS)
    offset = expected("north")._models()[0].offset_
    assert offset is not None
    right = PublicScores(offset.to_bytes())
    said = site_app.answer(folder, query, "me", None, right)
    assert isinstance(said, Answers)
    other = replace(offset, agreement=replace(offset.agreement, radius=2.0))
    for scores in (PublicScores(b"nonsense"), PublicScores(other.to_bytes())):
        refused = site_app.answer(folder, query, "me", None, scores)
        assert isinstance(refused, Failure)
        assert refused.code is FailureCode.MALFORMED
    plain = site_app.answer(folder, query, "me")  # the model in memory is as it was
    assert isinstance(plain, Answers)
    assert plain.measure == "euclidean"
    Site(folder.root).configure(withdraw_plain_sums=True)
    refused = site_app.answer(folder, query, "me", None, right)
    assert isinstance(refused, Failure)
    assert refused.code is FailureCode.MALFORMED


# --- what the server takes --------------------------------------------------------------------------------


def _lying(change: Callable[[PlainSums], PlainSums]) -> Callable[[Message], Message]:
    """A site that announces, and sends, something else."""
    import hashlib

    known: dict[str, PlainSums] = {}

    def changed(message: Message) -> Message:
        if isinstance(message, PlainSums):
            return known["sent"]
        if isinstance(message, Profile) and message.sums is not None:
            agreed = declared_agreement(SCHEMA)
            content = MODELS[message.site].joined_sums(agreed).to_bytes()
            honest = PlainSums(message.site, SCHEMA.digest, agreed.radius, agreed.n_directions, content)
            known["sent"] = change(honest)
            return replace(message, sums=hashlib.sha256(known["sent"].content).hexdigest())
        return message

    return changed


def _other_sums(schema: Schema) -> bytes:
    return model_of(1, schema).joined_sums(declared_agreement(schema)).to_bytes()


def _too_long() -> bytes:
    sums = MODELS["south"].joined_sums(declared_agreement(SCHEMA))
    sums.moments.sums_[:] = 1e6
    return sums.to_bytes()


WIDER = Schema((*FIELDS, Field("height", low=0, high=300)))
FEWER = Schema((*FIELDS[:2], replace(FIELDS[2], levels=("no", "yes"))))
LIES: dict[str, tuple[Callable[[PlainSums], PlainSums], str]] = {
    "nonsense": (lambda sums: replace(sums, content=b"nonsense"), "sums-refused"),
    "sums no rows have": (lambda sums: replace(sums, content=_too_long()), "sums-refused"),
    "other classes": (lambda sums: replace(sums, content=_other_sums(FEWER)), "the classes, the radius"),
    "another radius": (lambda sums: replace(sums, radius=sums.radius * 2), "the classes, the radius"),
    "another lift": (lambda sums: replace(sums, n_directions=3), "another number of columns"),
    "another schema": (lambda sums: replace(sums, schema="ab" * 32), "not the sums that the site speaks of"),
    "another site": (lambda sums: replace(sums, site="north"), "not the sums that the site speaks of"),
}


@pytest.mark.parametrize("lie", LIES)
def test_sums_that_do_not_fit_are_refused_and_the_site_is_told(net: Network, lie: str) -> None:
    change, line = LIES[lie]
    net.come("north")
    before = net.measures("north")
    net.change = _lying(change)
    assert net.come("south") is Status.REFUSED
    assert line in net.told["south"]
    assert [path.name for path in net.server.sums.iterdir()] == ["north.sums"]
    net.change = lambda message: message
    np.testing.assert_array_equal(net.measures("north"), before)


def test_member_that_comes_back_with_wrong_sums_takes_part_no_more(net: Network) -> None:
    net.come("north")
    net.come("south")
    net.change = _lying(lambda sums: replace(sums, content=_too_long()))
    assert net.come("south") is Status.REFUSED
    net.change = lambda message: message
    np.testing.assert_array_equal(net.measures("north"), expected("north").measures(ROWS))


def test_site_with_more_rows_than_one_may_contribute_is_refused(tmp_path: Path) -> None:
    net = Network(tmp_path, most_rows=60)
    assert net.come("north") is Status.MEMBER
    many = LocalModel(default_classifier(SCHEMA).set_params(measure="euclidean"), schema=SCHEMA)
    assert net.come("south", model=many.fit(table(1, 61))) is Status.REFUSED
    assert "more rows than a site may contribute" in net.told["south"]


def test_answers_in_another_measure_than_announced_are_refused(net: Network) -> None:
    for name in NAMES[:2]:
        net.come(name)
    said = net.ask("north", "south")
    said["north"] = MODELS["north"].answer(Query("q", ROWS), "north")
    profiles = {name: entry.profile for name, entry in net.registry.members.items()}
    result = GlobalClassifier().combine(said, ["north", "south"], query=Query("q", ROWS), profiles=profiles)
    assert result.refused == {"north": "unlike-profile"}


# --- messages, settings, numbers --------------------------------------------------------------------------


def test_settings_of_a_server_are_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / "server.json"
    ServerSettings("127.0.0.1", 8443).save(path)
    assert ServerSettings.load(path).most_rows is None
    ServerSettings("127.0.0.1", 8443, most_rows=5).save(path)
    assert ServerSettings.load(path).most_rows == 5
    with pytest.raises(InvalidInputError, match="most_rows: Input should be greater than or equal to 1"):
        ServerSettings("127.0.0.1", 8443, most_rows=0)


def test_scores_travel_to_the_last_bit() -> None:
    offset = expected("north", "south")._models()[0].offset_
    assert offset is not None
    found = Offset.from_bytes(offset.to_bytes())
    np.testing.assert_array_equal(found.of(ROWS), offset.of(ROWS))
    for damaged in (b"nonsense", offset.to_bytes()[:-9]):
        with pytest.raises(InvalidInputError):
            Offset.from_bytes(damaged)


def test_default_bound_of_joined_answers_bounds_their_minimum() -> None:
    together = expected(*NAMES)
    bound = default_bound("joined", ROWS)
    assert bound == default_bound("euclidean", ROWS) ** 2
    # For the class of the largest score nothing is added: its answer is a squared distance.
    offset = together._models()[0].offset_
    assert offset is not None
    np.testing.assert_array_equal(offset.of(ROWS).min(axis=1), 0.0)
    assert np.mean(together.measures(ROWS).min(axis=1) < bound) > 0.9


def test_missing_place_for_sums_is_made_again(net: Network) -> None:
    net.server.sums.rmdir()
    ServerFolder(net.server.root).prepare()
    assert net.server.sums.is_dir()


def test_refusal_lines_are_messages() -> None:
    for line in (NO_SUMS, OTHER_SUMS):
        assert Refusal("north", line).reason == line
