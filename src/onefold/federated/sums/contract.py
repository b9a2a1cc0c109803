"""What everybody agrees on before a sum: participants, key holders, noise, and what that promises."""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from onefold._base.validation import Entry, Flag, Instance, Number, Whole, check_parameters
from onefold.exceptions import InvalidInputError, MessageError
from onefold.federated.messages import check_digest, check_guarantee, check_name, is_text
from onefold.federated.sums.bfv import PLAIN_BITS
from onefold.federated.sums.keys import (
    BFV,
    SHAMIR,
    PublicHolder,
    canonical,
    check_distinct,
    check_scheme,
    check_threshold,
    most_colluding,
)
from onefold.federated.sums.noise import SumBlock, largest_sum, mu_of_blocks
from onefold.federated.sums.sharing import MODULUS
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.privacy.guarantee import NOTHING, Guarantee
from onefold.privacy.terms import DELTA, EPSILON, Pair, shown

__all__ = ["NO_NOISE", "SumContract"]

KIND, VERSION = "onefold sum contract", 1
NO_NOISE = "no noise was added: the sum is that of the records themselves"
MOST_HOLDERS, MOST_SITES, MOST_ENTRIES = 100, 10_000, 2**26
WHOLE = 0.999  # of the promised mu: a round with more spends all of it
SAME = 1e-9  # relative distance within which numbers of two machines are the same
MOST_ROWS_PER_PERSON = 1000  # up to which the spare part of the noise pays for the lines of single records
CONSTRAINTS: dict[str, Entry] = {
    "threshold": Whole(1),
    "missing_sites": Whole(0),
    "colluding_sites": Whole(0),
    "colluding_holders": (Whole(0), None),
    "missing_holders": (Whole(0), None),
    "earlier_mu": Number(at_least=0),
    "noise": Flag(),
    "promise": (Instance(Guarantee, "a Guarantee"), None),
}


@dataclass(frozen=True)
class SumContract:
    """One round of an encrypted sum, as all its participants see it.

    Every message, signature and answer is bound to the digest of the contract.

    Parameters
    ----------
    round_id : str
        Name of the round, never used before: a holder answers once to it.
    holders : tuple of PublicHolder
        The key holders: the sites themselves, or others. Each sees random numbers only.
    threshold : int
        Number t of holders whose answers open the sum.
    sites : tuple of str
        Names of the Q sites.
    blocks : tuple of SumBlock
        What the vector consists of, and its noise.
    promise : Guarantee or None, default=None
        What one private release with the noise of the blocks would promise. Needed unless ``noise=False``.
    missing_sites : int, default=0
        Number of sites without which the sum is still opened.
    colluding_sites : int, default=1
        Number of other sites that may add no noise, or tell it to somebody who looks at the sum. A site that
        looks at the sum knows its own noise: 1 covers sites that look at it each by itself.
    colluding_holders : int or None, default=None
        Number c of holders that may collude with the server and with each other. 2 t must exceed n + c, or
        two different lists of sites could be opened; None takes the largest such number.
    missing_holders : int or None, default=None
        Number of holders without which the sum can still be opened; None takes n - t.
    site_keys : tuple of PublicHolder, default=()
        Public keys of the sites, in their order. Without them the server could send messages in a site's
        name, and the guarantee has a further condition.
    agreement : str, default=""
        Digest of what the vectors mean: schema, encoder, bins, centre.
    earlier_mu : float, default=0.0
        Gaussian privacy of earlier rounds that the same promise covers.
    noise : bool, default=True
        False sums without noise: the sum is exact, and nothing is promised to anybody.
    scheme : {"shamir", "bfv"}, default="shamir"
        Whether the numbers of sites are shared among the holders, or encrypted under the one key of a single
        holder, added by the server and then read by the holder. The latter needs the extra ``fhe`` at sites
        and at the holder.

    See Also
    --------
    EncryptedSum : Does what the contract says.

    Notes
    -----
    Each site adds noise of variance sigma^2 / (Q - f), where f is the number of missing and colluding sites.
    So the noise of those that are left is enough, and if nobody fails it is larger than needed by the factor
    sqrt(Q / (Q - f)).

    Examples
    --------
    >>> holders = tuple(PublicHolder(name, name * 64, name * 63 + "0") for name in "abc")
    >>> block = SumBlock("counts", 4, largest=100)
    >>> contract = SumContract("r1", holders, 2, ("north", "south", "west"), (block,), noise=False)
    >>> contract.length, contract.colluding_holders, contract.least_sites
    (4, 0, 3)
    """

    round_id: str
    holders: tuple[PublicHolder, ...]
    threshold: int
    sites: tuple[str, ...]
    blocks: tuple[SumBlock, ...]
    promise: Guarantee | None = None
    missing_sites: int = 0
    colluding_sites: int = 1
    colluding_holders: int | None = None
    missing_holders: int | None = None
    site_keys: tuple[PublicHolder, ...] = ()
    agreement: str = ""
    earlier_mu: float = 0.0
    noise: bool = True
    scheme: str = SHAMIR
    digest: str = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("holders", "sites", "blocks", "site_keys"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        check_parameters(self, CONSTRAINTS)
        check_name("the name of a round", self.round_id)
        if self.agreement:
            check_digest(self.agreement)
        self._check_people()
        self._check_holders()
        self._check_numbers()
        if self.noise:
            self._check_promise()
        object.__setattr__(self, "digest", hashlib.sha256(self.to_bytes()).hexdigest())

    def _check_people(self) -> None:
        if not 2 <= len(self.sites) <= MOST_SITES or len(set(self.sites)) < len(self.sites):
            raise InvalidInputError(f"an encrypted sum needs 2 to {MOST_SITES} sites, each named once")
        for site in self.sites:
            check_name("the name of a site", site)
        if self.least_adding < 1:
            raise InvalidInputError(
                f"with {self.missing_sites} missing and {self.colluding_sites} colluding sites of "
                f"{len(self.sites)} nobody is left to add noise: allow fewer, or have more sites"
            )
        if self.site_keys and tuple(key.name for key in self.site_keys) != self.sites:
            raise InvalidInputError("site_keys must have one key per site, in their order, or be empty")

    def _check_holders(self) -> None:
        n, t = len(self.holders), self.threshold
        if not 1 <= n <= MOST_HOLDERS or len({holder.name for holder in self.holders}) < n:
            raise InvalidInputError(f"there must be 1 to {MOST_HOLDERS} holders, each named once")
        check_distinct((*self.holders, *self.site_keys))
        if self.colluding_holders is None:
            object.__setattr__(self, "colluding_holders", most_colluding(n, t))
        if self.missing_holders is None:
            object.__setattr__(self, "missing_holders", n - t)
        missing = self.missing_holders or 0
        check_scheme(self.scheme, self.holders, t)
        check_threshold(n, t, self.colluding_holders or 0)
        if t > n - missing:
            raise InvalidInputError(
                f"threshold {t} of {n} holders is too high if {missing} may be missing: "
                f"use at most {n - missing}"
            )

    def _check_numbers(self) -> None:
        if not self.blocks or not all(isinstance(block, SumBlock) for block in self.blocks):
            raise InvalidInputError("blocks must be a list of SumBlock, at least one")
        if self.length > MOST_ENTRIES:
            raise InvalidInputError(f"a sum has at most {MOST_ENTRIES} entries")
        for block in self.blocks:
            if not is_text(block.name) or not block.name:
                raise InvalidInputError("the name of a block must be a short printable text")
            if self.largest(block) >= self.room:
                digits = self.room.bit_length() - (self.scheme == BFV)
                raise InvalidInputError(
                    f"sums of the block {block.name!r} could wrap around at 2**{digits}: use a coarser grid, "
                    "or declare smaller numbers"
                )

    def _check_promise(self) -> None:
        if self.promise is None or self.promise.mu is None or not self.promise.mu > 0.0:
            raise InvalidInputError(
                "promise must be the Guarantee of Gaussian noise, with mu; or say noise=False"
            )
        if (self.promise.rows_per_person or 1) > MOST_ROWS_PER_PERSON:
            raise InvalidInputError(
                f"a person may have at most {MOST_ROWS_PER_PERSON} rows in an encrypted sum"
            )
        if math.hypot(self.mu, self.earlier_mu) > self.promise.mu:
            raise InvalidInputError(
                "the noise of the blocks is too small for the promise: sigma must be larger than a release "
                "needs by one part in a million"
            )
        _check_stated(self.promise, self.promise.mu)

    @property
    def keys(self) -> dict[str, PublicHolder]:
        """Every key of the contract, by name: those of the holders, and of the sites if they sign."""
        return {key.name: key for key in (*self.holders, *self.site_keys)}

    @property
    def length(self) -> int:
        """Number of entries of a vector."""
        return sum(block.length for block in self.blocks)

    @property
    def room(self) -> int:
        """What the absolute value of every sum stays below."""
        return int(2 ** (PLAIN_BITS - 1)) if self.scheme == BFV else MODULUS // 2

    @property
    def n_parts(self) -> int:
        """Parts of a site's message: one for each holder, and under one key one that the server adds up."""
        return len(self.holders) + (self.scheme == BFV)

    def largest(self, block: SumBlock) -> int:
        """Return what no sum of a block exceeds, noise included.

        Parameters
        ----------
        block : SumBlock
            One of the blocks.

        Returns
        -------
        int
            The bound on absolute values; noise exceeds it with a probability below 10**-50.
        """
        return largest_sum(block, len(self.sites), self.least_adding)

    @property
    def least_sites(self) -> int:
        """Smallest number of sites whose sum is opened."""
        return len(self.sites) - self.missing_sites

    @property
    def least_adding(self) -> int:
        """Number Q - f of sites whose noise is enough."""
        return self.least_sites - self.colluding_sites

    @property
    def mu(self) -> float:
        """Gaussian privacy of the sum; infinite without noise."""
        if not self.noise:
            return math.inf
        return mu_of_blocks(self.blocks, len(self.sites), self.least_adding)

    @property
    def guarantee(self) -> Guarantee:
        """What is promised about the opened sum, with the conditions under which it is."""
        if self.promise is None or not self.noise:
            base = (
                Guarantee("record", NOTHING, NOTHING, self.length) if self.promise is None else self.promise
            )
            return replace(base, n_owners=len(self.sites)).voided(NO_NOISE)
        found = replace(
            self.promise,
            n_owners=len(self.sites),
            mechanism="Gaussian on encrypted sums, shared by sites, hardened sampler",
        )
        for condition in self._conditions():
            found = found.provided(condition)
        return found

    @property
    def cost(self) -> Guarantee:
        """What this round alone spends, for a ledger: of a promise about two rounds a part.

        Gaussian noise adds up in mu, and deltas add up: the parts of all rounds are the promise.
        """
        whole = self.guarantee
        if whole.mu is None or not self.noise or self.mu > WHOLE * whole.mu:
            return whole
        share = (self.mu / whole.mu) ** 2
        widest = "record" if whole.person is None else "person"

        def part(name: str) -> Pair | None:
            pair = getattr(whole, name)
            if pair is None or not (DELTA.accepts(pair[1]) and EPSILON.accepts(pair[0])):
                return pair  # type: ignore[no-any-return]
            # Other changes are at most two of the widest unit, one after the other.
            mu = self.mu if name == widest else min(mu_of(*pair), 2.0 * self.mu)
            return epsilon_of(mu, share * pair[1]), share * pair[1]

        lines = {name: part(name) for name in ("entry", "record", "replaced", "labels", "person")}
        if whole.neighbours == "replace":
            lines["replaced"] = lines["record"]
        return replace(whole, **lines, mu=self.mu)  # type: ignore[arg-type]

    def _conditions(self) -> list[str]:
        found = [
            f"of the sites in the sum (at least {self.least_sites} of {len(self.sites)}) those that add no "
            "noise and those that look at the sum together, knowing their own noise, are at most "
            f"{self.colluding_sites}",
            self._of_holders(),
            f"the keys in the contract are those of {', '.join(self.keys)}, as comparing fingerprints shows",
        ]
        if not self.site_keys:
            found.append("the server sends nothing in the name of a site, since sites do not sign")
        if self.promise is not None and self.promise.person is not None:
            twice = shown(self.promise.at_sites(2, shared_noise=True)[0])
            found.append(
                f"no person is at two sites: the noise is shared, and such a person has epsilon {twice}"
            )
        return found

    def _of_holders(self) -> str:
        """The condition about key holders: t of them need no server to read what each of them has got."""
        n, t, unit = (
            len(self.holders),
            self.threshold,
            "record" if self.promise is None else self.promise.unit,
        )
        read = f"each site's numbers, with epsilon {shown(self.exposed)} per {unit}"
        if self.scheme == BFV:
            return (
                "the key holder does not collude with the server, and sees nothing that sites send but their "
                f"total: otherwise it reads {read}"
            )
        if t == 1:
            return f"the only key holder looks at nothing but the sum: it can read {read}"
        return (
            f"at most {self.colluding_holders} of {n} key holders collude with the server, and fewer than "
            f"{t} with each other: {t} of them together read {read}"
        )

    @property
    def exposed(self) -> float:
        """Epsilon of a site's numbers with its share of the noise, in all rounds, for t colluding holders."""
        if self.promise is None or self.promise.mu is None or not self.noise:
            return math.inf
        pair = self.promise.record if self.promise.person is None else self.promise.person
        return epsilon_of(self.promise.mu * math.sqrt(self.least_adding), pair[1])

    def place(self, site: str) -> int:
        """Return the position of a site; refuse one that does not take part.

        Parameters
        ----------
        site : str
            Name of the site.

        Returns
        -------
        int
            Its position in ``sites``.
        """
        if site not in self.sites:
            raise InvalidInputError("this site does not take part in the sum: it is not in the contract")
        return self.sites.index(site)

    def number(self, holder: str) -> int:
        """Return the number of a holder, from 1; refuse one that is not in the contract.

        Parameters
        ----------
        holder : str
            Name of the holder.

        Returns
        -------
        int
            Its number, at which the polynomials of shares are evaluated.
        """
        names = [each.name for each in self.holders]
        if holder not in names:
            raise InvalidInputError("this holder is not in the contract")
        return names.index(holder) + 1

    def to_bytes(self) -> bytes:
        """Return the contract as bytes, always the same for the same contract.

        Returns
        -------
        bytes
            JSON; its SHA-256 sum is ``digest``.
        """
        plain = {name: getattr(self, name) for name in PLAIN}
        for name in ("holders", "site_keys"):
            plain[name] = [key.to_dict() for key in getattr(self, name)]
        plain["blocks"] = [asdict(block) for block in self.blocks]
        if self.scheme != SHAMIR:  # contracts of older programs do not name it
            plain["scheme"] = self.scheme
        promise = None if self.promise is None else self.promise.to_dict()
        return canonical({"kind": KIND, "version": VERSION, **plain, "promise": promise})

    @classmethod
    def from_bytes(cls, content: bytes) -> "SumContract":
        """Read a contract; whatever does not fit together is refused.

        Parameters
        ----------
        content : bytes
            What :meth:`to_bytes` returned.

        Returns
        -------
        SumContract
            The contract.
        """
        try:
            plain = json.loads(content)
            if plain.pop("kind") != KIND or plain.pop("version") != VERSION:
                raise MessageError("this is not a sum contract of this version")
            return _read(plain)
        except InvalidInputError:
            raise
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
            raise MessageError("this is not a sum contract, or it is damaged") from None


def _check_stated(promise: Guarantee, mu: float) -> None:
    """Refuse a promise whose epsilon is smaller than its mu allows: the noise is held to mu alone."""
    each = mu / (promise.rows_per_person or 1)  # of one record, at least
    lines = [(promise.record, mu)]
    if promise.person is not None:
        lines = [(promise.person, mu), (promise.record, each)]
    for pair, needed in (*lines, (promise.replaced, each)):
        if pair is None or not math.isfinite(pair[0]):
            continue  # nothing is claimed
        epsilon, delta = pair
        if not 0.0 < delta < 1.0 or epsilon_of(needed * (1.0 - SAME), delta) > epsilon:
            raise InvalidInputError(
                "the promise states a smaller epsilon than its Gaussian privacy mu allows"
            )


PLAIN = (
    "round_id",
    "threshold",
    "sites",
    "missing_sites",
    "colluding_sites",
    "colluding_holders",
    "missing_holders",
    "agreement",
    "earlier_mu",
    "noise",
)


def _read(plain: Mapping[str, Any]) -> SumContract:
    if set(plain) - {"scheme"} != {*PLAIN, "holders", "site_keys", "blocks", "promise"}:
        raise MessageError("this is not a sum contract, or it is damaged")
    told = check_guarantee(plain["promise"])
    return SumContract(
        holders=tuple(PublicHolder(**each) for each in plain["holders"]),
        site_keys=tuple(PublicHolder(**each) for each in plain["site_keys"]),
        blocks=tuple(SumBlock(**each) for each in plain["blocks"]),
        promise=None if told is None else Guarantee.from_dict(told),
        scheme=plain.get("scheme", SHAMIR),
        **{name: plain[name] for name in PLAIN},
    )
