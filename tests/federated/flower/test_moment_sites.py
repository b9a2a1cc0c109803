"""Private moments of real sites, without a network: what is sent, what is refused, and who answers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from tests.reference.network import NAMES, InProcessNetwork

from onefold.cli.app import main
from onefold.exceptions import BudgetExceededError, FederationError, InvalidInputError, MessageError
from onefold.federated import LocalModel, MomentFederation, release_moments
from onefold.federated.declared import declared_moments
from onefold.federated.flower import Site, site_app
from onefold.federated.flower.registry import NO_MOMENTS, NO_RULE, OTHER_MOMENTS, Status
from onefold.federated.flower.site_app import PROFILE, SUMS
from onefold.federated.messages import (
    Answers,
    Failure,
    FailureCode,
    PrivateSums,
    Profile,
    Query,
    from_bytes,
)
from onefold.privacy import Laplace, Ledger, PrivateMoments, domain_of
from onefold.tables import Field, Schema
from reference.moment_files import parts_of_moments
from reference.site_files import model_file, sums_file

SCHEMA = Schema(
    (
        Field("age", low=0, high=100),
        Field("pulse", low=40, high=200),
        Field("ward", "string", levels=("a", "b", "c")),
        Field("sick", "string", "label", levels=("no", "yes")),
    )
)
AGREED = declared_moments(4.0, schema=SCHEMA)


def table(seed: int, n: int = 400) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    sick = rng.random(n) < 0.5
    ward = np.where(rng.random(n) < 0.7, np.where(sick, "a", "b"), "c")
    return {
        "age": (30 + 30 * sick + 10 * rng.standard_normal(n)).clip(0, 100).round(1).tolist(),
        "pulse": (80 + 40 * sick + 10 * rng.standard_normal(n)).clip(40, 200).round(1).tolist(),
        "ward": ward.tolist(),
        "sick": np.where(sick, "yes", "no").tolist(),
    }


class Network(InProcessNetwork):
    """Sites that send private moments of classes."""

    def come(self, name: str, agreed: PrivateMoments = AGREED, **options: Any) -> Status:
        """A site releases moments and connects; where it stands then."""
        options = {"schema": SCHEMA, "X": table(NAMES.index(name)), "y": None} | options
        self.site(name).fit_moments(moments=agreed, ledger=self.own_ledger(name), **options)
        return self.look(name)


@pytest.fixture
def net(tmp_path: Path) -> Network:
    return Network(tmp_path)


def content(net: Network, name: str) -> bytes:
    found = from_bytes(sums_file(net.folder(name)).read_bytes())
    assert isinstance(found, PrivateSums)
    return found.content


# --- joining, answering, leaving --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["query", "model"])
def test_server_answers_from_the_sum_of_the_members_and_no_site_is_asked(
    mode: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    net = Network(tmp_path, mode=mode)
    assert [net.come(name) for name in NAMES] == [Status.MEMBER] * 3
    asked = table(9, 200)
    result = net.federation.query(asked, schema=SCHEMA)
    assert result.answered == NAMES
    assert not result.partial
    assert np.mean(result.predictions == np.array(asked["sick"])) > 0.9
    together = MomentFederation()
    for name in NAMES:
        together.add(name, content(net, name))
    classes, measures = together.answers(SCHEMA.transform(asked))
    np.testing.assert_array_equal(result.classes, classes)
    np.testing.assert_array_equal(result.measures, measures)
    assert net.federation.moments().guarantee.record == (4.0, 1e-5)
    assert set(net.kinds) == {PROFILE, SUMS}
    assert main(["federate", "status", "--folder", str(net.server.root)]) == 0
    said = capsys.readouterr().out
    assert said.count("epsilon 4 per record, delta 1e-05, on the site's word, labels covered too") == 3
    assert said.count("sent private moments") == 3
    assert "no site is asked or sees one" in said


def test_removed_site_leaves_no_trace_and_may_come_again(net: Network) -> None:
    for name in NAMES:
        net.come(name)
    rows = table(9, 50)
    everyone = net.federation.query(rows, schema=SCHEMA)
    net.federation.remove("south")
    assert not net.server.sums_of("south").exists()
    two = net.federation.query(rows, schema=SCHEMA)
    never = MomentFederation().add("west", content(net, "west")).add("north", content(net, "north"))
    np.testing.assert_array_equal(two.measures, never.answers(SCHEMA.transform(rows))[1])
    assert two.answered == ("north", "west")
    net.federation.add("south")
    assert net.look("south") is Status.MEMBER
    again = net.federation.query(rows, schema=SCHEMA)
    np.testing.assert_array_equal(again.measures, everyone.measures)


def test_model_of_the_sum_is_made_once_for_many_queries(
    net: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, ...]] = []
    original = MomentFederation.fitted

    def fitted(self: Any, *args: Any, **options: Any) -> Any:
        made.append(tuple(sorted(map(str, self.owners))))
        return original(self, *args, **options)

    monkeypatch.setattr(MomentFederation, "fitted", fitted)
    for name in NAMES:
        net.come(name)
    results = [net.federation.query(table(9, 20), schema=SCHEMA) for _ in range(3)]
    for each in results:
        np.testing.assert_array_equal(each.measures, results[0].measures)
    net.federation.remove("south")
    net.federation.query(table(9, 20), schema=SCHEMA)
    assert made == [NAMES, ("north", "west")]


def test_moments_are_sent_once_and_again_only_after_another_release(net: Network) -> None:
    net.come("north")
    net.look("north")
    assert net.kinds.count(SUMS) == 1
    before = net.federation.query(table(9, 20), schema=SCHEMA)
    net.come("north")
    assert net.kinds.count(SUMS) == 2
    after = net.federation.query(table(9, 20), schema=SCHEMA)
    assert not np.array_equal(before.measures, after.measures)


def test_site_keeps_nothing_but_the_moments_and_answers_no_query(net: Network) -> None:
    net.site("north").fit(table(0), schema=SCHEMA)
    assert model_file(net.folder("north")).exists()
    net.come("north")
    assert not model_file(net.folder("north")).exists()
    assert net.site("north").sends_moments
    assert not net.site("north").model_may_leave
    assert not net.site("north").sends_plain_sums
    said = site_app.answer(net.folder("north"), Query("q", SCHEMA.transform(table(1, 5))), "anyone")
    assert isinstance(said, Failure)
    assert said.code is FailureCode.MALFORMED
    assert isinstance(site_app.model_parcel(net.folder("north")), Failure)
    site_app.warm(net.folder("north"))
    with pytest.raises(InvalidInputError, match="--method rows"):
        net.site("north").configure(withdraw_plain_sums=True)


# --- what is refused --------------------------------------------------------------------------------------


def test_sites_of_different_kinds_keep_each_other_out_by_name(net: Network) -> None:
    net.come("north")
    net.site("south").fit(table(1), schema=SCHEMA)
    assert net.look("south") is Status.REFUSED
    assert net.told["south"] == NO_MOMENTS
    net.federation.remove("north")
    net.federation.add("north")
    assert net.look("south") is Status.MEMBER
    asked = net.kinds.count(SUMS)
    assert net.look("north") is Status.REFUSED
    assert net.told["north"] == OTHER_MOMENTS
    assert net.kinds.count(SUMS) == asked  # a site that does not fit is not asked for anything of its rows


def test_releases_that_cannot_be_added_are_refused_and_not_kept(net: Network) -> None:
    net.come("north")
    other = declared_moments(4.0, schema=SCHEMA).set_params(centre=None)
    assert net.come("south", other) is Status.REFUSED
    assert "different centres cannot be added" in net.told["south"]
    assert not net.server.sums_of("south").exists()
    assert net.come("west", declared_moments(1.0, schema=SCHEMA)) is Status.MEMBER  # another epsilon adds up
    assert net.federation.moments().guarantee.record == (4.0, 1e-5)


def test_server_takes_only_the_moments_that_the_profile_speaks_of(net: Network) -> None:
    net.come("west")
    net.changed = PrivateSums("north", content(net, "west"))
    assert net.come("north") is Status.REFUSED
    assert "not the sums that the site speaks of" in net.told["north"]
    net.changed = None
    folder = net.folder("north")
    profile = site_app.read_profile(folder)
    assert profile.guarantee is not None
    better = Profile(
        **vars(profile) | {"guarantee": declared_moments(0.1, schema=SCHEMA).promise(5).to_dict()}
    )
    site_app.write_profile(folder, better)
    assert net.look("north") is Status.REFUSED
    assert "not the moments that the site speaks of" in net.told["north"]
    site_app.write_profile(folder, replace(profile, classes=("no", "perhaps")))
    assert net.look("north") is Status.REFUSED
    site_app.write_profile(folder, profile)
    assert net.look("north") is Status.MEMBER


def test_moments_without_a_guarantee_cannot_be_stored(net: Network) -> None:
    X = SCHEMA.transform(table(0))
    for moments in (
        PrivateMoments(None, classes=["no", "yes"], centre=None),
        PrivateMoments(1.0, classes=["no", "yes"], centre=None, random_state=0),
    ):
        with pytest.raises(InvalidInputError, match="no guarantee that holds"):
            site_app.store_moments(net.folder("north"), release_moments(X, table(0)["sick"], moments))
    with pytest.raises(InvalidInputError, match="promise nothing"):
        net.site("north").fit_moments(
            table(0), None, declared_moments(1.0, schema=SCHEMA, sampler="float"), schema=SCHEMA
        )
    assert not sums_file(net.folder("north")).exists()
    assert not net.folder("north").ledger.exists()


def test_rule_against_liars_takes_no_moments(tmp_path: Path) -> None:
    net = Network(tmp_path, rule="checked")
    assert net.come("north") is Status.REFUSED
    assert net.told["north"] == NO_RULE
    assert SUMS not in net.kinds


def test_queries_that_moments_cannot_answer_are_refused(net: Network, tmp_path: Path) -> None:
    net.come("north")
    rows = table(9, 5)
    for options in ({"rule": "checked"}, {"n_liars": 1}):
        with pytest.raises(InvalidInputError, match="leave out --rule"):
            net.federation.query(rows, schema=SCHEMA, **options)
    with pytest.raises(InvalidInputError, match="no site's answer can be encrypted"):
        net.federation.query(rows, schema=SCHEMA, encrypted=True, keys=tmp_path / "keys")
    with pytest.raises(InvalidInputError, match="the sites have a schema"):
        net.federation.query(SCHEMA.transform(rows))
    net.server.sums_of("north").unlink()
    with pytest.raises(FederationError, match="are not here, or damaged"):
        net.federation.query(rows, schema=SCHEMA)


def test_answers_with_noise_and_without_are_not_mixed_unless_named(net: Network) -> None:
    noise = Laplace(50.0, sensitivity=domain_of(SCHEMA))
    for name, mechanism in (("north", noise), ("south", None)):
        net.site(name).fit(table(0, 60), schema=SCHEMA, mechanism=mechanism)
        assert net.look(name) is Status.MEMBER
    with pytest.raises(InvalidInputError, match=r"north answer\(s\) with noise and south without.*--mix"):
        net.federation.query(table(9, 5), schema=SCHEMA)
    with pytest.raises(FederationError, match="not running"):  # which is the next thing that is looked at
        net.federation.query(table(9, 5), schema=SCHEMA, mix=True)


# --- what leaves, and what it costs -----------------------------------------------------------------------


def test_ledger_is_charged_before_and_a_second_release_must_name_it(net: Network) -> None:
    site = net.site("north")
    site.fit_moments(table(0), None, AGREED, schema=SCHEMA)
    ledger = Ledger.load(site.folder.ledger)
    assert (ledger.unit, ledger.neighbours) == ("record", "add-remove")
    assert [event.epsilon for event in ledger.events] == [4.0]
    before = sums_file(site.folder).read_bytes()
    with pytest.raises(InvalidInputError, match="this site has spent epsilon 4 per record"):
        site.fit_moments(table(0), None, AGREED, schema=SCHEMA)
    limited = net.site("south")
    Ledger(3.0, unit="record", neighbours="add-remove").save(limited.folder.ledger)
    with pytest.raises(BudgetExceededError):
        limited.fit_moments(table(0), None, AGREED, schema=SCHEMA)
    assert sums_file(site.folder).read_bytes() == before
    assert not sums_file(limited.folder).exists()


def test_persons_are_protected_as_the_schema_declares(net: Network) -> None:
    fields = (*SCHEMA.fields, Field("patient", "integer", "person", low=0, high=10_000))
    schema = Schema(fields, rows_per_person=2)
    rows = table(0) | {"patient": (np.arange(400) // 4).tolist()}
    net.site("north").fit_moments(rows, None, declared_moments(4.0, schema=schema), schema=schema)
    guarantee = net.site("north").profile.guarantee
    assert guarantee is not None
    assert guarantee["unit"] == "person"
    assert guarantee["person"]["epsilon"] == 4.0
    assert Ledger.load(net.folder("north").ledger).unit == "person"


def test_message_and_profile_of_neighbouring_tables_differ_in_released_numbers_only(net: Network) -> None:
    """One record more, one class never seen, cells outside the contract: nothing else tells of it."""
    one_class = {name: values[:40] for name, values in table(0).items()}
    one_class["sick"] = ["no"] * 40
    strange = {name: [*values] for name, values in table(0).items()}
    strange["age"][3], strange["ward"][4], strange["sick"][5] = "old", "roof", "perhaps"
    more = {name: [*values, values[0]] for name, values in table(0).items()}
    nobody: dict[str, list[Any]] = {name: [] for name in table(0)}
    seen = []
    for rows in (table(0), one_class, strange, more, nobody):
        net.come("north", X=rows)
        profile = vars(site_app.read_profile(net.folder("north"))) | {"sums": None, "model_digest": None}
        profile["guarantee"].pop("charges")  # random, and numbered by the site's ledger
        about, arrays = parts_of_moments(content(net, "north"))
        about["guarantee"].pop("charges")
        shapes = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        noise = {name: arrays[name].tolist() for name in arrays if "noise" in name}
        size = len(sums_file(net.folder("north")).read_bytes())
        files = sorted(path.suffix for path in net.folder("north").state.iterdir())
        seen.append((profile, about, shapes, noise, size, files))
    # How the budget is divided follows from the noisy counts, which are released.
    assert all(each[0] == seen[0][0] and each[1] == seen[0][1] for each in seen)
    assert all(each[2] == seen[0][2] and each[4:] == seen[0][4:] for each in seen)


def test_profile_of_moments_needs_a_guarantee_and_says_which_moments(net: Network) -> None:
    net.come("north")
    profile = vars(net.site("north").profile)
    for wrong in ({"guarantee": None}, {"sums": None}, {"scale": 1.0}):
        with pytest.raises(MessageError):
            Profile(**profile | wrong)
    with pytest.raises(MessageError, match="answers no queries"):
        Answers("q", "north", ("no", "yes"), "moments", None, np.zeros((1, 2)))


def test_site_that_leaves_moments_for_answers_is_an_ordinary_site_again(net: Network) -> None:
    net.come("north")
    assert net.server.sums_of("north").exists()
    Site(net.folder("north").root).store(LocalModel(schema=SCHEMA).fit(table(0, 60)))
    assert net.look("north") is Status.MEMBER
    assert not net.server.sums_of("north").exists()
    with pytest.raises(FederationError, match="sends private moments"):
        net.federation.moments()
