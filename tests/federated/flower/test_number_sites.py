"""Numbers to predict at real sites, without a network: what is sent, what is refused, and who answers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("flwr")

from tests.reference.network import NAMES, InProcessNetwork

from onefold import MomentRegressor
from onefold.exceptions import FederationError, InvalidInputError, MessageError
from onefold.federated import MomentFederation, number_sums
from onefold.federated.flower import site_app
from onefold.federated.flower.registry import NO_RULE, OTHER_NOISE, Status
from onefold.federated.flower.site_app import PROFILE, SUMS
from onefold.federated.messages import Failure, PlainSums, PrivateSums, Profile, Query, from_bytes
from onefold.federated.number_sums import NumberRelease
from onefold.privacy import Ledger
from onefold.tables import Field, Schema
from reference.moment_files import changed_moments, parts_of_moments
from reference.site_files import model_file, sums_file

SCHEMA = Schema(
    (
        Field("age", low=0, high=100),
        Field("ward", "string", levels=("a", "b", "c")),
        Field("cost", role="label", low=0, high=1000),
    )
)
PLAIN, NOISY = NumberRelease(SCHEMA), NumberRelease(SCHEMA, epsilon=4.0)


def table(seed: int, n: int = 400) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    age, ward = rng.uniform(0, 100, n).round(1), rng.choice(["a", "b", "c"], n)
    cost = 100 + 5 * age + 200 * (ward == "b") + 20 * rng.standard_normal(n)
    return {"age": age.tolist(), "ward": ward.tolist(), "cost": cost.clip(0, 1000).round(2).tolist()}


class Network(InProcessNetwork):
    """Sites that send moments of numbers to predict."""

    def come(self, name: str, agreed: NumberRelease = NOISY, rows: Any = None, **options: Any) -> Status:
        """A site fits and connects; where it stands then."""
        rows = table(NAMES.index(name)) if rows is None else rows
        options = {"send_plain_sums": agreed.epsilon is None, "ledger": self.own_ledger(name)} | options
        self.site(name).fit_numbers(rows, agreed, **options)
        return self.look(name)

    def content(self, name: str) -> bytes:
        found = from_bytes(sums_file(self.folder(name)).read_bytes())
        assert isinstance(found, PrivateSums | PlainSums)
        return found.content


@pytest.fixture(autouse=True)
def _small_lift(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of 512 directions are the same and take longer."""
    monkeypatch.setattr(number_sums, "lift_width", lambda *_: 8)


@pytest.fixture
def net(tmp_path: Path) -> Network:
    return Network(tmp_path)


# --- joining, answering, leaving --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["query", "model"])
@pytest.mark.parametrize("agreed", [PLAIN, NOISY], ids=["plain", "noisy"])
def test_server_predicts_from_the_sum_of_the_members_and_no_site_is_asked(
    mode: str, agreed: NumberRelease, tmp_path: Path
) -> None:
    net = Network(tmp_path, mode=mode)
    assert [net.come(name, agreed) for name in NAMES] == [Status.MEMBER] * 3
    asked = table(9, 200)
    result = net.federation.predict_numbers(asked, schema=SCHEMA)
    together = MomentFederation(SCHEMA, lift=agreed.n_directions or None)
    for name in NAMES:
        together.add(name, net.content(name))
    np.testing.assert_array_equal(result.predictions, together.fitted(MomentRegressor).predict(asked))
    errors = result.predictions - np.array(asked["cost"])
    assert np.sqrt(np.mean(errors**2)) < 0.5 * np.std(asked["cost"])
    assert result.sites == NAMES
    assert np.all(result.low <= result.predictions)
    assert np.all(result.predictions <= result.high)
    assert result.guarantee.holds == (agreed.epsilon is not None)
    assert set(net.kinds) == {PROFILE, SUMS}


def test_plain_sums_of_sites_make_the_model_of_all_rows_in_one_place(net: Network) -> None:
    for name in NAMES:
        net.come(name, PLAIN)
    parts = [table(number) for number in range(3)]
    everything = {name: [cell for part in parts for cell in part[name]] for name in parts[0]}
    one = MomentFederation(SCHEMA, lift=PLAIN.n_directions)
    one.add("all", one.release(everything))
    asked = table(9, 50)
    np.testing.assert_array_equal(
        net.federation.predict_numbers(asked, schema=SCHEMA).predictions,
        one.fitted(MomentRegressor).predict(asked),
    )


@pytest.mark.parametrize("agreed", [PLAIN, NOISY], ids=["plain", "noisy"])
def test_removed_site_leaves_no_trace_and_may_come_again(agreed: NumberRelease, net: Network) -> None:
    for name in NAMES:
        net.come(name, agreed)
    asked = table(9, 50)
    everyone = net.federation.predict_numbers(asked, schema=SCHEMA)
    net.federation.remove("south")
    assert not net.server.sums_of("south").exists()
    two = net.federation.predict_numbers(asked, schema=SCHEMA)
    never = MomentFederation(SCHEMA, lift=agreed.n_directions or None)
    never.add("west", net.content("west")).add("north", net.content("north"))
    np.testing.assert_array_equal(two.predictions, never.fitted(MomentRegressor).predict(asked))
    assert two.sites == ("north", "west")
    net.federation.add("south")
    assert net.look("south") is Status.MEMBER
    again = net.federation.predict_numbers(asked, schema=SCHEMA)
    np.testing.assert_array_equal(again.predictions, everyone.predictions)


# --- what is refused --------------------------------------------------------------------------------------


def test_sums_leave_without_noise_only_by_consent_and_never_beside_noise(net: Network) -> None:
    with pytest.raises(InvalidInputError, match="--send-plain-sums"):
        net.come("north", PLAIN, send_plain_sums=False)
    with pytest.raises(InvalidInputError, match="plain sums do not go with noise"):
        net.come("north", NOISY, send_plain_sums=True)
    assert not sums_file(net.folder("north")).exists()
    assert net.come("north", NOISY) is Status.MEMBER
    assert net.come("south", PLAIN) is Status.REFUSED
    assert net.told["south"] == OTHER_NOISE
    assert net.kinds.count(SUMS) == 1  # nothing of the rows of a site that does not fit is asked for


def test_rule_against_liars_takes_no_sums(tmp_path: Path) -> None:
    net = Network(tmp_path, rule="checked")
    assert net.come("north") is Status.REFUSED
    assert net.told["north"] == NO_RULE


def test_other_schemas_and_too_many_rows_are_refused(tmp_path: Path) -> None:
    net = Network(tmp_path, most_rows=500)
    assert net.come("north", PLAIN) is Status.MEMBER
    fields = [replace(field, high=2000.0) if field.name == "cost" else field for field in SCHEMA.fields]
    assert net.come("south", NumberRelease(Schema(fields))) is Status.REFUSED
    assert net.told["south"].startswith("other-schema")
    assert net.come("west", PLAIN, table(3, 600)) is Status.REFUSED
    assert "more rows than a site may contribute" in net.told["west"]
    assert net.federation.predict_numbers(table(9, 5), schema=SCHEMA).sites == ("north",)


def forged(content: bytes, **changes: Any) -> bytes:
    """The bytes of moments some of whose arrays were replaced, with correct check sums."""
    assert set(changes) <= set(parts_of_moments(content)[1])
    return changed_moments(content, **changes)


@pytest.mark.parametrize("agreed", [PLAIN, NOISY], ids=["plain", "noisy"])
def test_moments_that_no_rows_have_are_refused(agreed: NumberRelease, net: Network) -> None:
    net.come("west", agreed)
    net.come("north", agreed)
    net.federation.remove("north")
    net.federation.add("north")
    honest, profile = from_bytes(sums_file(net.folder("north")).read_bytes()), net.site("north").profile
    content = net.content("north")
    arrays = parts_of_moments(content)[1]
    products, sums, counts = (arrays[name] for name in ("triangles", "sums", "counts"))
    lies = {
        "no file": b"nothing",
        "cut off": content[: len(content) // 2],
        "not numbers": forged(content, counts=np.full(counts.shape, np.nan)),
        "infinite": forged(content, sums=np.full(sums.shape, np.inf)),
        "too narrow": forged(content, triangles=products[..., :-1]),
        "two classes": forged(content, classes=np.array([0, 1])),
        "another class": forged(content, classes=np.array([1])),
    }
    if agreed.epsilon is None:  # with noise any number of rows is possible
        lies["too long"] = forged(content, sums=100 * sums)
        lies["negative"] = forged(content, triangles=-products)
    for kind, lie in lies.items():
        net.changed = replace(honest, content=lie)
        digest = site_app.digest_of(net.changed.content)
        site_app.write_profile(net.folder("north"), replace(profile, sums=digest, model_digest=digest))
        assert net.look("north") is Status.REFUSED, kind
        assert net.told["north"].startswith("sums-refused"), kind
        assert not net.server.sums_of("north").exists()
    assert net.federation.predict_numbers(table(9, 5), schema=SCHEMA).sites == ("west",)


def test_sums_of_another_kind_than_the_profile_says_are_refused(net: Network) -> None:
    net.come("west", PLAIN)
    honest = from_bytes(sums_file(net.folder("west")).read_bytes())
    assert isinstance(honest, PlainSums)
    for wrong in (
        replace(honest, site="north", n_directions=3),
        replace(honest, site="north", radius=2.0),
        PrivateSums("north", honest.content),
    ):
        net.changed = wrong
        assert net.come("north", PLAIN) is Status.REFUSED
        net.changed = None


def test_profile_for_numbers_needs_a_schema_and_says_which_moments(net: Network) -> None:
    net.come("north")
    profile = vars(net.site("north").profile)
    for wrong in ({"schema": None, "schema_fields": ()}, {"sums": None}, {"scale": 1.0}, {"classes": (1,)}):
        with pytest.raises(MessageError):
            Profile(**profile | wrong)


def test_queries_about_classes_and_wrong_schemas_are_refused(net: Network) -> None:
    with pytest.raises(FederationError, match="no site has joined"):
        net.federation.predict_numbers(table(9, 5), schema=SCHEMA)
    net.come("north")
    assert net.federation.predicts_numbers
    with pytest.raises(InvalidInputError, match="predict numbers, not classes"):
        net.federation.query(table(9, 5), schema=SCHEMA)
    with pytest.raises(InvalidInputError, match="level"):
        net.federation.predict_numbers(table(9, 5), schema=SCHEMA, level=float("nan"))
    other = Schema([*SCHEMA.fields[:2], Field("cost", role="label", low=0, high=5)])
    with pytest.raises(InvalidInputError, match="not that of the sites"):
        net.federation.predict_numbers(table(9, 5), schema=other)
    net.server.sums_of("north").unlink()
    with pytest.raises(FederationError, match="are not here, or damaged"):
        net.federation.predict_numbers(table(9, 5), schema=SCHEMA)


def test_site_for_numbers_keeps_no_model_and_answers_no_query(net: Network) -> None:
    net.come("north", PLAIN)
    site = net.site("north")
    assert site.predicts_numbers
    assert site.sends_plain_sums
    assert not site.sends_moments
    assert not model_file(site.folder).exists()
    asked = Query("q", SCHEMA.transform(table(1, 5)))
    assert isinstance(site_app.answer(site.folder, asked, "anyone"), Failure)
    assert isinstance(site_app.model_parcel(site.folder), Failure)
    site_app.warm(site.folder)
    with pytest.raises(InvalidInputError, match="from sums alone"):
        site.configure(withdraw_plain_sums=True)


# --- what leaves, and what it costs -----------------------------------------------------------------------


def test_noise_is_charged_to_the_ledger_and_a_second_release_must_name_it(net: Network) -> None:
    site = net.site("north").fit_numbers(table(0), NOISY)
    assert [event.epsilon for event in Ledger.load(site.folder.ledger).events] == [4.0]
    with pytest.raises(InvalidInputError, match="this site has spent epsilon 4 per record"):
        site.fit_numbers(table(0), NOISY)


def test_persons_are_protected_as_the_schema_declares_and_can_be_forgotten(net: Network) -> None:
    fields = (*SCHEMA.fields, Field("patient", "integer", "person", low=0, high=10_000))
    schema = Schema(fields, rows_per_person=2)
    rows = table(0) | {"patient": (np.arange(400) // 4).tolist()}
    site = net.site("north").fit_numbers(rows, NumberRelease(schema, epsilon=4.0))
    assert site.profile.guarantee is not None
    assert site.profile.guarantee["person"]["epsilon"] == 4.0
    plain = net.site("south").fit_numbers(rows, NumberRelease(schema), send_plain_sums=True)
    plain.forget(0).fit_numbers(rows, NumberRelease(schema), send_plain_sums=True)
    left = {name: values[4:] for name, values in rows.items()}
    without = net.site("west").fit_numbers(left, NumberRelease(schema), send_plain_sums=True)
    assert net.content("south") == net.content("west")
    assert without.predicts_numbers


def test_message_and_profile_of_neighbouring_tables_differ_in_released_numbers_only(net: Network) -> None:
    strange = {name: [*values] for name, values in table(0).items()}
    strange["age"][3], strange["ward"][4], strange["cost"][5] = "old", "roof", "much"
    more = {name: [*values, values[0]] for name, values in table(0).items()}
    nobody: dict[str, list[Any]] = {name: [] for name in table(0)}
    seen = []
    for rows in (table(0), strange, more, nobody):
        net.come("north", rows=rows)
        profile = vars(site_app.read_profile(net.folder("north"))) | {"sums": None, "model_digest": None}
        profile["guarantee"].pop("charges")  # random, and numbered by the site's ledger
        about, arrays = parts_of_moments(net.content("north"))
        about["guarantee"].pop("charges")
        shapes = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        seen.append((profile, json.dumps(about, sort_keys=True), shapes, len(net.content("north"))))
    assert all(each == seen[0] for each in seen)
