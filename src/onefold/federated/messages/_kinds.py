"""The messages: what each one says, and what must hold for its fields."""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

import numpy as np

from onefold._base.arrays import Array
from onefold._base.validation import Whole, check_parameters
from onefold.exceptions import MessageError
from onefold.federated.messages._fields import (
    CHECKS,
    LARGEST_INTEGER,
    MOMENTS,
    NUMBERS,
    ClassLabels,
    check_scale,
    is_text,
)
from onefold.models import MAXIMA

MOST_LOOKS = 64


class FailureCode(StrEnum):
    """Why a site did not answer: fixed words, so that no error text can carry a row of data."""

    MALFORMED = "malformed"  # the query could not be read
    TOO_LARGE = "too-large"  # more rows, features or bytes than the site takes
    WRONG_FEATURES = "wrong-features"  # another number of features than the site's model has
    RATE_LIMITED = "rate-limited"  # too many rows in the last minute: ask later
    BUDGET_SPENT = "budget-spent"  # this querier has had all the answers it will get
    UNKNOWN_CALLER = "unknown-caller"  # the site does not know who asks, or knows too many already
    NOT_READY = "not-ready"  # there is no fitted model yet
    NOT_PRIVATE = "not-private"  # a model of raw rows, or sums of them, were asked for without consent
    NO_ENCRYPTION = "no-encryption"  # encryption was asked for, and the extra fhe is not installed
    SEALED_ONLY = "sealed-only"  # the site gives encrypted answers only
    UNTRUSTED_KEY = "untrusted-key"  # the site has not allowed this querier's key, or a key of a contract
    OTHER_CLASSES = "other-classes"  # the site has a class that is not among those asked for
    UNSIGNED = "unsigned"  # the site answers queries only that a querier has signed
    BAD_SIGNATURE = "bad-signature"  # the signature is not one of this query in this federation
    STALE = "stale"  # the query was signed too long ago, or the clocks differ
    REPLAYED = "replayed"  # the site has answered this very query already
    WAITING = "waiting-for-approval"  # the data owner has not decided yet, or has allowed less than is asked
    DENIED = "denied"  # the data owner has refused this querier or purpose
    PAUSED = "paused"  # the data owner answers nobody at the moment
    NO_MODEL = "no-model"  # the site takes part in encrypted sums only
    OTHER_ROUND = "other-round"  # the site knows this round with another contract or another list of sites
    NOT_AGREED = "not-agreed"  # too few key holders have signed the list of sites that this one has signed
    INTERNAL = "internal"  # anything else; the site's own log knows more


@dataclass(frozen=True)
class Limits:
    """The largest message that is still read.

    The defaults let 100 000 rows or 100 000 features through, though never both: a server can hold a few
    messages of 256 MiB, and gRPC runtimes carry about twice as much in one message.

    Parameters
    ----------
    max_rows, max_features : int, default=100000
        Rows and features of one message.
    max_classes : int, default=10000
        Classes of answers, of a model or of a query key.
    max_bytes : int, default=268435456
        Bytes of all arrays together.
    """

    max_rows: int = 100_000
    max_features: int = 100_000
    max_classes: int = 10_000
    max_bytes: int = 256 * 2**20

    def __post_init__(self) -> None:
        check_parameters(self, dict.fromkeys(vars(self), Whole(1)))


class _Checked:
    """A frozen message whose fields are checked, by the one table of checks, while it is being made."""

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            if each.name in CHECKS:
                object.__setattr__(self, each.name, CHECKS[each.name](getattr(self, each.name)))


@dataclass(frozen=True, eq=False)
class Query(_Checked):
    """Rows that sites are asked about.

    Parameters
    ----------
    id : str
        Name of the query, which the answers repeat.
    features : ndarray of shape (n, p)
        The rows, in float32 or float64.
    """

    id: str
    features: Array = field(repr=False)  # a log must not show rows

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.all(np.isfinite(self.features)):
            raise MessageError("features must be finite numbers")


@dataclass(frozen=True, eq=False)
class Answers(_Checked):
    """What a site answers: one number per row and class it has.

    Parameters
    ----------
    query_id, site : str
        Names of the query and of the site.
    classes : tuple of int or of str
        Labels of the columns.
    measure : str
        Name of the measure.
    scale : float or None
        Factor at which a folding measure sees the data, weight of the public offset for the joined measure;
        None for the distance.
    values : ndarray of shape (n, C)
        The measures, in float32 or float64.
    """

    query_id: str
    site: str
    classes: ClassLabels
    measure: str
    scale: float | None
    values: Array = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.measure in (MOMENTS, NUMBERS):
            raise MessageError("a site that sends moments answers no queries")
        object.__setattr__(self, "scale", check_scale(self.measure, self.scale))
        if self.values.shape[1] != len(self.classes):
            raise MessageError("values must have one column per class")
        # Comparisons with NaN are false, so NaN is refused too.
        if not np.all((self.values >= 0) & (self.values <= self.largest)):
            raise MessageError("values must lie within the range of the measure and must not be NaN")

    @property
    def largest(self) -> float:
        """The maximum of the measure: the answer for a class that the site lacks."""
        return MAXIMA[self.measure]


@dataclass(frozen=True, eq=False)
class Profile(_Checked):
    """What a site says about itself when it joins.

    Parameters
    ----------
    site : str
        Name of the site.
    classes : tuple of int or of str
        Labels the site has rows of.
    measure : str
        Name of the measure in which it answers; "moments" for a site that sends private moments, and
        "numbers" for one that sends moments of numbers to predict: these answer nothing.
    scale : float or None
        Factor at which a folding measure sees the data, weight of the public offset for the joined measure;
        None for the distance and for moments.
    n_features : int
        Number of features of its model.
    guarantee : dict or None
        What its model promises about the rows it was fitted on (``Guarantee.to_dict``). None: the answers are
        functions of raw rows.
    model_digest : str
        SHA-256 sum of the model.
    columns : str or None, default=None
        Sum of the names of the columns (``columns_digest``); None where they have no names.
    schema : str or None, default=None
        Digest of the declared contract of the site's table (``Schema.digest``); None without one.
    schema_fields : tuple of (str, str), default=()
        Name and sum of each field of that contract, so that the first one in which two sites differ can be
        named. A contract is public among the sites; nothing of it travels without one.
    sums : str or None, default=None
        SHA-256 sum of the sums that this site sends once: private moments with a guarantee
        (:class:`PrivateSums`), or sums without noise that it has agreed to send (:class:`PlainSums`). None:
        it sends none, whatever the server asks for.
    """

    site: str
    classes: ClassLabels
    measure: str
    scale: float | None
    n_features: int
    guarantee: dict[str, Any] | None
    model_digest: str
    columns: str | None = None
    schema: str | None = None
    schema_fields: tuple[tuple[str, str], ...] = ()
    sums: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "scale", check_scale(self.measure, self.scale))
        if (self.schema is None) != (not self.schema_fields):
            raise MessageError("the digest of a schema and the sums of its fields go together")
        if self.measure == MOMENTS:
            if self.guarantee is None or self.sums is None:
                raise MessageError("a site that sends moments has a guarantee and says which moments")
        elif self.measure == NUMBERS:
            if self.schema is None or self.sums is None or self.classes != (0,):
                raise MessageError("a site for numbers to predict has a schema and says which moments")
        elif self.sums is not None and (self.schema is None or self.measure != "euclidean"):
            raise MessageError("a site that sends plain sums has a schema and measures distances")
        if type(self.n_features) is not int or not 0 < self.n_features < LARGEST_INTEGER:
            raise MessageError("n_features must be a whole number of at least 1")

    @property
    def sends_only_sums(self) -> bool:
        """Whether the site answers no query: the sums that it sends once are all there is."""
        return self.measure in (MOMENTS, NUMBERS)

    @property
    def sends_private_sums(self) -> bool:
        """Whether these sums have a guarantee of their own."""
        return self.sends_only_sums and self.guarantee is not None

    @property
    def sends_plain_sums(self) -> bool:
        """Whether the site sends sums of its rows without noise."""
        return self.sums is not None and not self.sends_private_sums


@dataclass(frozen=True, eq=False)
class ModelParcel(_Checked):
    """A private model that travels.

    The bytes are checked by their sum when read. Whether the model in them really is private is checked
    where it is opened, see :meth:`onefold.federated.LocalModel.from_parcel`.

    Parameters
    ----------
    site : str
        Name of the site.
    content : bytes
        The model as a file of :mod:`onefold.io`.
    """

    site: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, eq=False)
class PlainSums(_Checked):
    """The sums without noise of one site, sent once. **They are not private.**

    Whether they are sums that rows can have is checked where they are opened, see
    :meth:`onefold.federated.JoinedSums.from_bytes` and :func:`onefold.federated.number_sums.pairs_in`.

    Parameters
    ----------
    site : str
        Name of the site.
    schema : str
        Digest of the declared contract by which the rows were encoded.
    radius : float
        Length to which rows are shortened.
    n_directions : int
        Number of random directions of the public lift.
    content : bytes
        The sums, as :meth:`onefold.federated.JoinedSums.to_bytes` writes them, or for numbers to predict
        :meth:`onefold.privacy.PrivateMoments.to_bytes`.
    """

    site: str
    schema: str
    radius: float
    n_directions: int
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schema is None:
            raise MessageError("sums need the digest of the schema of their rows")
        if type(self.n_directions) is not int or not 0 <= self.n_directions <= Limits().max_features:
            raise MessageError("n_directions must be a whole number, and not too large")


@dataclass(frozen=True, eq=False)
class PrivateSums(_Checked):
    """The private moments of one site, sent once; they carry their guarantee.

    Whether they are moments with a guarantee that holds is checked where they are opened.

    Parameters
    ----------
    site : str
        Name of the site.
    content : bytes
        The moments, as :meth:`onefold.privacy.PrivateMoments.to_bytes` writes them.
    """

    site: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, eq=False)
class PublicScores(_Checked):
    """What the server of a joined federation computed from the sums, sent to the sites with every query.

    Parameters
    ----------
    content : bytes
        The scores, as :meth:`onefold.federated.Offset.to_bytes` writes them.
    """

    content: bytes = field(repr=False)


@dataclass(frozen=True, eq=False)
class Failure(_Checked):
    """That a site did not answer, and why.

    Parameters
    ----------
    query_id, site : str
        Names of the query and of the site.
    code : FailureCode
        The reason, one of the fixed words.
    """

    query_id: str
    site: str
    code: FailureCode

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            object.__setattr__(self, "code", FailureCode(self.code))
        except ValueError:
            raise MessageError("the code of a failure is not one of the known words") from None


@dataclass(frozen=True, eq=False)
class Refusal(_Checked):
    """That the server keeps a site out, and why.

    Parameters
    ----------
    site : str
        Name of the site.
    reason : str
        One printable line.
    """

    site: str
    reason: str


@dataclass(frozen=True, eq=False)
class SiteFacts(_Checked):
    """What a site tells the server's operator about itself, for the status.

    Parameters
    ----------
    site : str
        Name of the site.
    onefold, flower : str
        Versions of onefold and of Flower.
    rows : int or None
        Number of rows that the site's operator declares; None if it is not to be told.
    budget : str or None
        What the site's ledger has spent, in words; None if it is not to be told.
    """

    site: str
    onefold: str
    flower: str
    rows: int | None
    budget: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        texts = (self.onefold, self.flower, self.budget or "")
        if not all(is_text(text) for text in texts):
            raise MessageError("what a site tells about itself must be short printable texts")
        if self.rows is not None and (type(self.rows) is not int or not 0 <= self.rows < LARGEST_INTEGER):
            raise MessageError("a declared number of rows must be a whole number from 0 on")


@dataclass(frozen=True, eq=False)
class QueryKey(_Checked):
    """The public part of a querier's key, and what its numbers mean, the same for all sites.

    A measure d becomes ``rint((2**bits - 1) * s**power)``, where ``s = (d - floor) / (bound - floor)`` is cut
    off at 0 and 1. With several looks or with knots the map is that of
    :class:`onefold.federated.fhe.quantiser.MeasureMap`.

    Parameters
    ----------
    key_id : str
        SHA-256 sum that names the key.
    classes : tuple of int or of str
        Labels of the columns of answers.
    bits : int
        Number of bits of an encrypted measure, from 1 to 32.
    bound, power, floor : float
        Measure that becomes the largest number, exponent applied before rounding, measure that becomes 0.
    content : bytes
        The public key.
    looks : int, default=1
        How often every row is answered, each time with other boundaries between the numbers, from 1 to 64.
    knots : tuple of float, default=()
        Increasing measures, between each two of which equally many numbers lie evenly; the first is
        ``floor``, the last is ``bound``. Empty for the map of ``power``.
    """

    key_id: str
    classes: ClassLabels
    bits: int
    bound: float
    power: float
    floor: float
    content: bytes = field(repr=False)
    looks: int = 1
    knots: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.bits) is not int or not 1 <= self.bits <= 32:
            raise MessageError("bits must be a whole number from 1 to 32")
        if not (0 <= self.floor < self.bound and self.power > 0):
            raise MessageError("a query key needs 0 <= floor < bound and a positive power")
        if type(self.looks) is not int or not 1 <= self.looks <= MOST_LOOKS:
            raise MessageError(f"looks must be a whole number from 1 to {MOST_LOOKS}")
        if self.knots and (self.knots[0], self.knots[-1], 1.0) != (self.floor, self.bound, self.power):
            raise MessageError("the knots of a query key must go from its floor to its bound, with power 1")


@dataclass(frozen=True, eq=False)
class SealedAnswers(_Checked):
    """The encrypted answers of a site to one query.

    Parameters
    ----------
    query_id, site : str
        Names of the query and of the site.
    content : bytes
        The answers, encrypted under a query key.
    """

    query_id: str
    site: str
    content: bytes = field(repr=False)


@dataclass(frozen=True, eq=False)
class SealedResult(_Checked):
    """What the server computed from encrypted answers; only the querier that holds the key can read it.

    Parameters
    ----------
    query_id : str
        Name of the query.
    sites : tuple of str
        Names of the sites whose answers were used.
    content : bytes
        The encrypted result.
    """

    query_id: str
    sites: tuple[str, ...]
    content: bytes = field(repr=False)


SUM_STEPS = ("contribute", "check", "sign", "answer")


@dataclass(frozen=True, eq=False)
class SumParcel(_Checked):
    """One step of an encrypted sum on its way to one site, or what the site made of it on its way back.

    Parameters
    ----------
    query_id : str
        Name of the request, which the reply repeats.
    site : str
        Name of the site that is asked, or replies.
    step : {"contribute", "check", "sign", "answer"}
        What a site is asked for, or a key holder: see :mod:`onefold.federated.flower.summing`.
    content : bytes
        The contract and what belongs to the step, or what the step gave.
    """

    query_id: str
    site: str
    step: str
    content: bytes = field(repr=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.step not in SUM_STEPS:
            raise MessageError(f"a step of an encrypted sum is one of {', '.join(SUM_STEPS)}")
