"""What everybody agrees on before a sum: participants, key holders, noise, and what that promises."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from onefold._base.records import Record, record
from onefold.exceptions import InvalidInputError
from onefold.federated.messages import Digest, Name, Names, check_sentences, digest_of, is_text
from onefold.federated.secret.keys import PublicHolder, check_distinct
from onefold.federated.secret.noise import AtLeastZero, Count, SumBlock, largest_sum, mu_of_blocks
from onefold.federated.secret.shares import MODULUS
from onefold.privacy.calibration import epsilon_of, mu_of
from onefold.privacy.guarantee import NOTHING, Guarantee
from onefold.privacy.terms import DELTA, EPSILON, Pair, shown

__all__ = ["NO_NOISE", "SumContract", "SumParties"]

NO_NOISE = "no noise was added: the sum is that of the records themselves"
MOST_HOLDERS, MOST_SITES, MOST_ENTRIES = 100, 10_000, 2**26
WHOLE = 0.999  # of the promised mu: a round with more spends all of it
SAME = 1e-9  # relative distance within which numbers of two machines are the same
MOST_ROWS_PER_PERSON = 1000  # up to which the spare part of the noise pays for the lines of single records


@record
class SumContract(Record, kind="sum contract"):
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
    site_keys : tuple of PublicHolder, default=()
        Public keys of the sites, in their order. Without them the server could send messages in a site's
        name, and the guarantee has a further condition.
    agreement : str, default=""
        Digest of what the vectors mean: schema, encoder, bins, centre.
    earlier_mu : float, default=0.0
        Gaussian privacy of earlier rounds that the same promise covers.
    noise : bool, default=True
        False sums without noise: the sum is exact, and nothing is promised to anybody.

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

    round_id: Name
    holders: tuple[PublicHolder, ...]
    threshold: Annotated[int, Field(ge=1)]
    sites: Names
    blocks: tuple[SumBlock, ...]
    promise: Guarantee | None = None
    missing_sites: Count = 0
    colluding_sites: Count = 1
    colluding_holders: Count | None = None
    site_keys: tuple[PublicHolder, ...] = ()
    agreement: Literal[""] | Digest = ""
    earlier_mu: AtLeastZero = 0.0
    noise: bool = True

    def __post_init__(self) -> None:
        self._check_people()
        self._check_holders()
        self._check_numbers()
        if self.promise is not None:
            check_sentences(self.promise)
        if self.noise:
            self._check_promise()

    @cached_property
    def digest(self) -> str:
        """SHA-256 sum of the contract: what participants compare."""
        return digest_of(self.to_bytes())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SumContract) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def _check_people(self) -> None:
        if not 2 <= len(self.sites) <= MOST_SITES:
            raise InvalidInputError(f"an encrypted sum needs 2 to {MOST_SITES} sites, each named once")
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
        if t > n:
            raise InvalidInputError(f"threshold is {t}, but there are only {n} holders")
        if self.colluding_holders is None:
            object.__setattr__(self, "colluding_holders", most_colluding(n, t))
        colluding = self.colluding_holders or 0
        if 2 * t <= n + colluding:
            least = (n + colluding) // 2 + 1
            whether = f"use at least {least}" if least <= n else "no threshold is high enough"
            raise InvalidInputError(
                f"threshold {t} of {n} holders is too low if {colluding} collude: two different lists of "
                f"sites could be opened; {whether}"
            )

    def _check_numbers(self) -> None:
        if not self.blocks:
            raise InvalidInputError("blocks must be a list of SumBlock, at least one")
        if self.length > MOST_ENTRIES:
            raise InvalidInputError(f"a sum has at most {MOST_ENTRIES} entries")
        for block in self.blocks:
            if not is_text(block.name) or not block.name:
                raise InvalidInputError("the name of a block must be a short printable text")
            if largest_sum(block, len(self.sites), self.least_adding) >= MODULUS // 2:
                raise InvalidInputError(
                    f"sums of the block {block.name!r} could wrap around at 2**60: use a coarser grid, or "
                    "declare smaller numbers"
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

    @property
    def of_holders(self) -> tuple[str, ...]:
        """What the threshold stands, in sentences."""
        n, t, c = len(self.holders), self.threshold, self.colluding_holders or 0
        missing = "none may" if t == n else f"{n - t} may"
        few = "No holder" if c == 0 else f"At most {c} of them"
        found = [
            f"{t} of {n} holders open a sum together: {missing} be missing.",
            f"{few} may collude with a server that breaks the protocol: otherwise it could have two lists of "
            "sites opened, whose difference shows a site.",
        ]
        if t == 1:
            found.append("The holder reads every site's numbers.")
        else:
            few = "one of them alone learns" if t == 2 else f"{t - 1} of them together learn"
            enough = f"{t} together read every site's numbers"
            found.append(f"If the server follows the protocol, {few} nothing; {enough}.")
        if t < n:
            more = most_colluding(n, t + 1)
            left = f"{n - t - 1} be missing" if n - t - 1 else "none be missing"
            found.append(f"With {t + 1} of {n}, {more} could collude, and {left}.")
        return tuple(found)

    def _of_holders(self) -> str:
        """The condition about key holders: t of them need no server to read what each of them has got."""
        n, t = len(self.holders), self.threshold
        unit = "record" if self.promise is None else self.promise.unit
        read = f"each site's numbers, with epsilon {shown(self.exposed)} per {unit}"
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

    def file(self, who: str, kind: str) -> str:
        """Return the name of the file that a participant, or whoever carries messages, keeps of this round.

        Parameters
        ----------
        who : str
            Name of the site or holder that the file is about.
        kind : str
            What is in it.

        Returns
        -------
        str
            The name.
        """
        return f"{self.round_id}.{who}.{kind}"

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


@dataclass(frozen=True)
class SumParties:
    """Who takes part in encrypted sums, and how many of them may fail.

    Parameters
    ----------
    sites : tuple of str
        Names of the sites.
    holders : tuple of PublicHolder
        Public keys of the holders.
    threshold : int
        Number of holders whose answers open a sum.
    missing_sites : int, default=0
        Number of sites without which a sum is still opened.
    colluding_sites : int, default=1
        Number of other sites that may add no noise, or look at the sum together, knowing their own noise.
    colluding_holders : int or None, default=None
        Number of holders that may collude with the server; None takes the largest number that the threshold
        allows.
    site_keys : tuple of PublicHolder, default=()
        Public keys of the sites, in their order.

    See Also
    --------
    SumContract : One round among them.

    Examples
    --------
    >>> holders = tuple(PublicHolder(name, name * 64, name * 63 + "0") for name in "abc")
    >>> SumParties(("north", "south"), holders, 2).threshold
    2
    """

    sites: tuple[str, ...]
    holders: tuple[PublicHolder, ...]
    threshold: int
    missing_sites: int = 0
    colluding_sites: int = 1
    colluding_holders: int | None = None
    site_keys: tuple[PublicHolder, ...] = ()

    def contract(self, round_id: str, blocks: Sequence[SumBlock], **options: Any) -> SumContract:
        """Return the contract of one round among these parties.

        Parameters
        ----------
        round_id : str
            Name of the round.
        blocks : sequence of SumBlock
            What the vector consists of.
        **options : dict
            Further parameters of :class:`SumContract`.

        Returns
        -------
        SumContract
            The contract.
        """
        own = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return SumContract(round_id=round_id, blocks=tuple(blocks), **own, **options)

    @classmethod
    def of(cls, contract: SumContract) -> "SumParties":
        """Return the parties of a contract.

        Parameters
        ----------
        contract : SumContract
            The contract.

        Returns
        -------
        SumParties
            Who takes part in it.
        """
        return cls(**{name: getattr(contract, name) for name in cls.__dataclass_fields__})

    def only(self, sites: Sequence[str]) -> "SumParties":
        """Return the parties of a later round, without the sites that were missing before.

        Parameters
        ----------
        sites : sequence of str
            Sites that were in an opened sum.

        Returns
        -------
        SumParties
            The same with these sites, of which correspondingly fewer may be missing.
        """
        places = [place for place, site in enumerate(self.sites) if site in sites]
        return replace(
            self,
            sites=tuple(self.sites[place] for place in places),
            site_keys=tuple(self.site_keys[place] for place in places) if self.site_keys else (),
            missing_sites=self.missing_sites - (len(self.sites) - len(places)),
        )

    @property
    def least_adding(self) -> int:
        """Number of sites whose noise is enough."""
        return len(self.sites) - self.missing_sites - self.colluding_sites


def most_colluding(n_holders: int, threshold: int) -> int:
    """How many holders may collude with a server so that still only one list of sites is opened."""
    return max(0, 2 * threshold - n_holders - 1)


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
