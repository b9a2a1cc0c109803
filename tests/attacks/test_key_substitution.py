"""Whoever writes a contract cannot read a site by keys of its own under the names of others."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cryptography")

from onefold.cli.app import main
from onefold.exceptions import FileFormatError, InvalidInputError, QueryRefused
from onefold.federated import (
    EncryptedSum,
    HolderKey,
    SchemaSum,
    SumBlock,
    SumContract,
    SumHolder,
    SumParties,
)
from onefold.federated.access.signatures import SigningKey
from onefold.federated.messages import Bundle, FailureCode, Query, QueryKey, SumParcel
from onefold.federated.secret.keys import KnownKeys
from onefold.tables import Field, Schema

NAMES = ("north", "south", "west")
BLOCK = SumBlock("counts", 3, largest=1000)
SCHEMA = Schema(
    [Field("age", low=0, high=100), Field("ill", "string", "label", levels=("no", "yes"))], rows_about=300
)
WARD = SigningKey("ward", bytes(32))


def new_keys(*names: str) -> dict[str, HolderKey]:
    return {name: HolderKey.new(name) for name in names or NAMES}


def contract(keys: dict[str, HolderKey], round_id: str = "spring", **changes: Any) -> SumContract:
    given: dict[str, Any] = {"holders": tuple(key.public for key in keys.values()), "threshold": 2}
    given |= {"sites": NAMES, "blocks": (BLOCK,), "noise": False}
    return SumContract(round_id, **given | changes)


def summed(keys: dict[str, HolderKey], round_id: str = "spring") -> SchemaSum:
    return SchemaSum(round_id, SumParties(NAMES, tuple(key.public for key in keys.values()), 2), SCHEMA)


def read_alone(total: EncryptedSum, keys: dict[str, HolderKey], message: bytes, folder: Path) -> list[int]:
    """What a querier reads of one site if the holders' keys are its own: it makes the other messages."""
    nothing = np.zeros(3, dtype=np.int64)
    others = [total.contribute(name, nothing, folder, key=keys[name]) for name in NAMES[1:]]
    opened = total.together([message, *others], [SumHolder(total, key, folder) for key in keys.values()])
    return [int(number) for number in opened.vector]


# --- one's own name -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_key", [True, False])
def test_querier_cannot_read_a_site_by_keys_under_the_names_of_the_sites(
    has_key: bool, tmp_path: Path
) -> None:
    own, forged = new_keys(), new_keys()
    total, site, querier = EncryptedSum(contract(forged)), tmp_path / "north", tmp_path / "querier"
    site.mkdir()
    querier.mkdir()
    vector, key = np.array([7, 8, 9]), own["north"] if has_key else None
    with pytest.raises(InvalidInputError) as refused:  # otherwise the querier reads [7, 8, 9]
        read_alone(total, forged, total.contribute("north", vector, site, key=key), querier)
    assert forged["north"].public.fingerprint in str(refused.value)
    assert "\n" not in str(refused.value)
    assert not list(site.glob("*.sum"))


def test_site_refuses_a_foreign_signing_key_under_its_name(tmp_path: Path) -> None:
    holders, sites = new_keys("ann", "bob"), new_keys()
    forged = sites | {"north": HolderKey.new("north")}
    agreed = contract(holders, site_keys=tuple(key.public for key in forged.values()))
    with pytest.raises(InvalidInputError, match=r"another key of north .* than its own"):
        EncryptedSum(agreed).contribute("north", np.array([7, 8, 9]), tmp_path, key=sites["north"])
    half = replace(sites["north"].public, agreement=HolderKey.new("x").public.agreement)
    agreed = contract(holders, site_keys=(half, sites["south"].public, sites["west"].public))
    with pytest.raises(InvalidInputError, match="another key of north"):
        EncryptedSum(agreed).contribute("north", np.array([7, 8, 9]), tmp_path, key=sites["north"])


# --- keys that are known ------------------------------------------------------------------------------------


def test_changed_key_of_a_known_holder_is_refused_by_sites_and_holders(tmp_path: Path) -> None:
    holders = new_keys("ann", "bob", "cy")
    vector, site, at_ann = np.array([7, 8, 9]), tmp_path / "north", tmp_path / "ann"
    site.mkdir()
    at_ann.mkdir()
    first = EncryptedSum(contract(holders))
    messages = [first.contribute(name, vector, site) for name in NAMES]
    routed = first.route(messages)
    SumHolder(first, holders["ann"], at_ann).sign(routed["ann"])
    forged = holders | {"bob": HolderKey.new("bob")}
    second = EncryptedSum(contract(forged, "summer"))
    with pytest.raises(InvalidInputError) as refused:
        second.contribute("north", vector, site)
    line, path = str(refused.value), site / "known_keys"
    for mark in (holders["bob"].public.fingerprint, forged["bob"].public.fingerprint, str(path)):
        assert mark in line
    assert "\n" not in line
    with pytest.raises(InvalidInputError, match="another key of bob"):
        SumHolder(second, holders["ann"], at_ann)
    # The same keys go on, in another order and with others beside them.
    more = dict(reversed(holders.items())) | {"dora": HolderKey.new("dora")}
    EncryptedSum(contract(more, "autumn", threshold=3)).contribute("north", vector, site)
    # As the line says: without bob's line the new key is taken, and kept from then on.
    lines = path.read_text().splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("bob ")))
    second.contribute("north", vector, site)
    with pytest.raises(InvalidInputError, match="another key of bob"):
        EncryptedSum(contract(holders, "winter")).contribute("north", vector, site)


def test_changed_key_of_a_known_site_is_refused(tmp_path: Path) -> None:
    holders, sites = new_keys("ann", "bob"), new_keys()
    known = KnownKeys(tmp_path, "ann", holders["ann"])
    known.keep(contract(holders, site_keys=tuple(key.public for key in sites.values())))
    forged = sites | {"west": HolderKey.new("west")}
    with pytest.raises(InvalidInputError, match="another key of west"):
        known.check(contract(holders, "summer", site_keys=tuple(key.public for key in forged.values())))
    as_holder = {"ann": holders["ann"], "west": forged["west"]}
    with pytest.raises(InvalidInputError, match="another key of west"):
        known.check(contract(as_holder, "summer"))


@pytest.mark.parametrize("content", [b"{}", b"ann", b"ann 00", b"ann " + b"0" * 63 + b"g", b"\xff"])
def test_damaged_file_of_known_keys_refuses_every_contract(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "known_keys").write_bytes(content)
    with pytest.raises(FileFormatError, match="known_keys: damaged"):
        EncryptedSum(contract(new_keys("ann", "bob"))).contribute("north", np.array([7, 8, 9]), tmp_path)


# --- one key, one name --------------------------------------------------------------------------------------


def test_same_key_under_two_names_and_two_keys_under_one_name_are_refused() -> None:
    keys, sites = new_keys("ann", "bob"), new_keys()
    public = [key.public for key in sites.values()]
    ann = keys["ann"].public
    twice = (ann, replace(keys["bob"].public, agreement=ann.agreement))
    for holders in ((ann, replace(ann, name="bob")), twice):
        with pytest.raises(InvalidInputError, match="two names with the same key"):
            contract(keys, holders=holders)
    for forged in (replace(ann, name="north"), replace(public[0], signing=ann.signing)):
        with pytest.raises(InvalidInputError, match="two names with the same key"):
            contract(keys, site_keys=(forged, *public[1:]))
    both = new_keys("north", "ann")  # north is a holder and a site, with two keys
    with pytest.raises(InvalidInputError, match="two keys under the name north"):
        contract(both, site_keys=tuple(public))
    with pytest.raises(InvalidInputError, match="two keys under the name"):
        contract(new_keys("ann", "Ann"))
    with pytest.raises(InvalidInputError, match="in their order"):
        contract(keys, site_keys=tuple(public[::-1]))


# --- what is approved and signed ----------------------------------------------------------------------------


def test_digest_covers_every_part_of_every_key() -> None:
    keys, sites = new_keys("ann", "bob"), new_keys()
    agreed = contract(keys, site_keys=tuple(key.public for key in sites.values()))
    digests = {agreed.digest}
    changes = 0
    for field in ("holders", "site_keys"):
        for place, key in enumerate(getattr(agreed, field)):
            for part in ("agreement", "signing"):
                listed = list(getattr(agreed, field))
                listed[place] = replace(key, **{part: getattr(HolderKey.new("x").public, part)})
                digests.add(replace(agreed, **{field: tuple(listed)}).digest)
                changes += 1
    assert len(digests) == changes + 1 == 11


def test_query_key_that_the_server_puts_in_its_place_is_refused() -> None:
    query = Query("q1", np.zeros((2, 3)))
    own, other = (QueryKey(digit * 64, ("a", "b"), 8, 1.0, 1.0, 0.0, b"key") for digit in "12")
    one = WARD.sign(query, "ab" * 32, query_key=own)
    many = WARD.sign_key(own, "ab" * 32, amount=8, until=2**40)
    one.check(query, "ab" * 32, own)
    many.check(own, "ab" * 32)
    for forged in (other, replace(own, bound=2.0), replace(own, classes=("b", "a")), None):
        with pytest.raises(QueryRefused, match="bad-signature"):
            one.check(query, "ab" * 32, forged)
        with pytest.raises(QueryRefused, match="bad-signature"):
            many.check(forged, "ab" * 32)


@pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen to compare with")
def test_fingerprint_of_a_site_that_is_let_in_is_that_of_openssh(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("flwr")
    from onefold.federated.flower.setup import make_node_key

    assert main(["federate", "init", str(tmp_path / "f"), "--sites", "north", "--own-keys"]) == 0
    make_node_key(tmp_path / "node.key", tmp_path / "node.pub")
    words = ["add", "north", str(tmp_path / "node.pub"), "--folder", str(tmp_path / "f" / "server")]
    assert main(["federate", *words]) == 0
    listed = subprocess.run(
        ["ssh-keygen", "-l", "-f", tmp_path / "node.pub"], capture_output=True, text=True, check=True
    )
    assert f"with the key {listed.stdout.split()[1]}: compare it with the site" in capsys.readouterr().out


# --- a site of a federation ---------------------------------------------------------------------------------


@pytest.fixture
def site(tmp_path: Path) -> Any:
    """A site of a federation with a key for sums, which nobody has asked yet."""
    pytest.importorskip("flwr")
    from onefold.federated.flower import Federation, Site

    Federation.create(tmp_path / "f", NAMES, insecure=True)
    HolderKey.new("north").save(tmp_path / "north.key")
    (tmp_path / "north.csv").write_text("age,ill\n31,no\n64,yes\n")
    found = Site(tmp_path / "f" / "sites" / "north")
    found.folder.prepare()
    return found.configure(sum_table=tmp_path / "north.csv", sum_key=tmp_path / "north.key")


def own_key(site: Any) -> HolderKey:
    return HolderKey.load(site.settings.sum_key)


def ask(site: Any, asked: SchemaSum, query: str = "q1") -> Any:
    from onefold.federated.flower.summing import take_step

    parcel = SumParcel(query, "north", "contribute", Bundle((asked.to_bytes(),)).to_bytes())
    digest = asked.total.contract.digest
    signature = WARD.sign_step(parcel, site.folder.federation_id, digest, purpose="triage")
    return take_step(site.folder, parcel, signature)


def decide(site: Any, round_id: str = "spring", *, code: int = 0) -> None:
    words = ["approvals", "approve", "ward", "--sum", round_id, "--folder", str(site.folder.root)]
    assert main(["federate", *words]) == code


def test_contract_with_a_foreign_key_of_the_site_never_reaches_its_data_owner(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ask(site, summed(new_keys())).code is FailureCode.UNTRUSTED_KEY
    decide(site, code=2)  # nothing waits
    assert "has not asked for an encrypted sum spring" in capsys.readouterr().err
    assert not list(site.folder.rounds.glob("*.contract"))


def test_site_without_a_key_takes_no_contract_with_a_key_under_its_name(site: Any) -> None:
    replace(site.settings, sum_key=None).save(site.folder.settings_file)
    assert ask(site, summed(new_keys())).code is FailureCode.UNTRUSTED_KEY


def test_data_owner_sees_fingerprints_and_what_is_known_of_each_key(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {"north": own_key(site)} | new_keys("bob", "cy")
    marks = {name: key.public.fingerprint for name, key in keys.items()}
    assert ask(site, summed(keys)).code is FailureCode.WAITING
    where = ("--folder", str(site.folder.root))
    capsys.readouterr()
    assert main(["federate", "approvals", "list", *where]) == 0
    said = capsys.readouterr().out
    assert f"key of north: fingerprint {marks['north']}, this site's own" in said
    assert f"key of bob: fingerprint {marks['bob']}, NEW here" in said
    decide(site)
    said = capsys.readouterr().out
    assert all(f"key of {name}: fingerprint {mark}" in said for name, mark in marks.items())
    assert isinstance(ask(site, summed(keys), "q2"), SumParcel)
    later = {"north": own_key(site), "bob": keys["bob"], "dora": HolderKey.new("dora")}
    assert ask(site, summed(later, "summer"), "q3").code is FailureCode.WAITING
    capsys.readouterr()
    assert main(["federate", "approvals", "list", *where]) == 0
    said = capsys.readouterr().out
    assert f"key of bob: fingerprint {marks['bob']}, known here" in said
    assert f"key of dora: fingerprint {later['dora'].public.fingerprint}, NEW here" in said


def test_key_is_known_from_the_approval_on(site: Any, capsys: pytest.CaptureFixture[str]) -> None:
    keys = {"north": own_key(site)} | new_keys("bob", "cy")
    forged = keys | {"bob": HolderKey.new("bob")}
    assert ask(site, summed(keys)).code is FailureCode.WAITING
    assert ask(site, summed(forged, "summer"), "q2").code is FailureCode.WAITING  # neither is known yet
    decide(site)
    decide(site, "summer", code=2)
    assert "another key of bob" in capsys.readouterr().err
    assert ask(site, summed(forged, "summer"), "q3").code is FailureCode.UNTRUSTED_KEY
    assert ask(site, summed(forged, "autumn"), "q4").code is FailureCode.UNTRUSTED_KEY


def test_second_contract_of_a_round_is_not_approved_with_the_first(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {"north": own_key(site)} | new_keys("bob", "cy")
    first, second = summed(keys), summed(keys | {"cy": HolderKey.new("cy")})
    assert ask(site, first).code is FailureCode.WAITING
    assert ask(site, second, "q2").code is FailureCode.WAITING
    decide(site, code=2)
    assert "several sums spring" in capsys.readouterr().err
    decide(site, first.total.contract.digest)
    assert ask(site, second, "q3").code is FailureCode.UNTRUSTED_KEY
    assert isinstance(ask(site, first, "q4"), SumParcel)


def test_contract_that_was_exchanged_in_the_folder_is_not_approved(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    keys = {"north": own_key(site)} | new_keys("bob", "cy")
    assert ask(site, summed(keys)).code is FailureCode.WAITING
    (kept,) = site.folder.rounds.glob("*.contract")
    summed(keys, "other").save(kept)
    decide(site, code=2)
    assert "its contract is not here any more" in capsys.readouterr().err
