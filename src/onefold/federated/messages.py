"""The messages of a federation: every one a record, checked when it is made and again when it is read.

A message travels as its bytes (:mod:`onefold._base.records`). :func:`from_bytes` reads one of any kind and
refuses whatever is malformed, of an unknown kind, of a newer version, or larger than the :class:`Limits`,
with a :class:`~onefold.exceptions.MessageError` that quotes nothing of what was received.

Encrypted queries use three more messages. A :class:`QueryKey` goes with queries to the sites; each site
replies with :class:`SealedAnswers`; the server makes one :class:`SealedResult` of them. Their contents are
records of :mod:`onefold.federated.fhe`, which a runtime carries without looking inside.

A joined federation uses two more. Each site that has agreed to it sends :class:`PlainSums` once; the server
sends :class:`PublicScores` of their sum along with every query. Their contents are those of
:mod:`onefold.federated.joined`.

A federation of private moments uses one: each site sends :class:`PrivateSums` once, with a guarantee, and the
server answers queries from their sum.

Encrypted sums use one for all their steps, in both directions: a :class:`SumParcel`. Its content is bytes of
:mod:`onefold.federated.secret`, which a runtime carries without looking inside.
"""

import hashlib
import json
import numbers
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, GetCoreSchemaHandler, PlainValidator, ValidationInfo
from pydantic_core import core_schema

from onefold._base.arrays import Array, Arrays
from onefold._base.records import ArrayField, Content, Record, kind_of, named_content, record
from onefold._base.validation import Whole, check_parameters
from onefold.exceptions import MessageError
from onefold.models import MAXIMA
from onefold.privacy import Guarantee

MOMENTS = "moments"  # what a site has that sends private moments instead of answers
NUMBERS = "numbers"  # the same for numbers to predict, with noise or without
ClassLabels = tuple[int, ...] | tuple[str, ...]

# Names appear in files, logs and terminals: nothing in them may end a line, a path or a colour.
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)
LONGEST_LABEL = 200
LONGEST_TEXT = 500
LARGEST_INTEGER = 2**63
MOST_REASONS = 100
MOST_KNOTS = 257
MOST_LOOKS = 64


# --- fields -------------------------------------------------------------------------------------------------


def check_name(what: str, value: Any) -> str:
    """Return a name that is safe in files, logs and terminals; ``what`` names it in the error."""
    if not isinstance(value, str) or NAME.fullmatch(value) is None:
        raise MessageError(
            f"{what} must be 1 to 64 letters a to z, digits, dots, dashes or underscores, starting with a "
            "letter or a digit"
        )
    return str(value)


def check_digest(value: Any) -> str:
    """Return a SHA-256 sum given as 64 hexadecimal digits."""
    if not isinstance(value, str) or DIGEST.fullmatch(value) is None:
        raise MessageError("a digest must be 64 hexadecimal digits")
    return str(value)


def digest_of(content: bytes) -> str:
    """Return the SHA-256 sum of bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def columns_digest(names: Iterable[str] | None) -> str | None:
    """Return the SHA-256 sum of the names of a table's columns in their order; None if they have no names.

    Two tables with the same sum have the same columns in the same order. Names can be guessed from the sum.
    """
    return None if names is None else digest_of(json.dumps([str(name) for name in names]).encode())


def plain_labels(classes: Iterable[Any]) -> ClassLabels:
    """Return class labels of an array as plain whole numbers or texts, as messages carry them."""
    return check_labels([label.item() if isinstance(label, np.generic) else label for label in classes])


def check_labels(labels: Any) -> ClassLabels:
    """Return distinct class labels: all whole numbers of at most 64 bits, or all printable texts."""
    if not isinstance(labels, (list, tuple)):
        raise MessageError("classes must be a list of labels")
    found = tuple(labels)
    keys = {label if isinstance(label, (str, numbers.Number)) else id(label) for label in found}
    if not found or len({type(label) for label in found}) > 1 or len(keys) < len(found):
        raise MessageError("classes must be distinct labels, at least one, all of one kind")
    whole = all(type(label) is int and -LARGEST_INTEGER <= label < LARGEST_INTEGER for label in found)
    if not whole and not all(is_text(label, LONGEST_LABEL) and label for label in found):
        raise MessageError("class labels must be whole numbers of 64 bits or short printable texts")
    return found


def is_text(value: Any, longest: int = LONGEST_TEXT) -> bool:
    """Return whether a value is a printable text without control characters, and not too long."""
    return type(value) is str and len(value) <= longest and value.isprintable()


def check_guarantee(plain: Any) -> dict[str, Any] | None:
    """Return a guarantee as ``Guarantee.to_dict`` writes it; its text is written anew from its numbers."""
    if plain is None:
        return None
    try:
        return check_sentences(Guarantee.from_dict(plain)).to_dict()
    except (TypeError, ValueError, ArithmeticError):
        raise MessageError("this is not the description of a guarantee") from None


def check_sentences(guarantee: Guarantee) -> Guarantee:
    """Return a guarantee whose texts may stand in a message."""
    charges = (charge.ledger + charge.mark + charge.previous for charge in guarantee.charges)
    texts = (*guarantee.voided_by, *guarantee.conditions, *charges, guarantee.mechanism)
    if len(texts) > MOST_REASONS or not all(map(is_text, texts)):
        raise MessageError("this is not the description of a guarantee")
    return guarantee


def _measure(value: str) -> str:
    known = (*MAXIMA, MOMENTS, NUMBERS)
    if value not in known:
        raise MessageError(f"measure must be one of {', '.join(known)}")
    return value


def _printable(value: str) -> str:
    if not value.isprintable():
        raise MessageError("must be a printable line")
    return value


def _table(array: Array, info: ValidationInfo) -> Array:
    """A read-only table of its own, in float32 or float64, with at least one row and column."""
    if array.dtype not in (np.float32, np.float64) or 0 in array.shape:
        raise MessageError("must have at least one row and one column, in float32 or float64")
    if info.mode == "json" and array.flags.c_contiguous:  # just read: nobody else has it
        return array
    copy = np.array(array, order="C", copy=True, subok=False)
    copy.setflags(write=False)
    return copy


def _increasing(values: tuple[float, ...]) -> tuple[float, ...]:
    if len(values) == 1 or any(b <= a for a, b in pairwise(values)):
        raise MessageError(f"must be 2 to {MOST_KNOTS} increasing numbers, or empty")
    return values


def _distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(names)) < len(names):
        raise MessageError("must name everyone once")
    return names


def _not_empty(content: bytes) -> bytes:
    if not content:
        raise MessageError("must be bytes, at least one")
    return content


Name = Annotated[str, AfterValidator(partial(check_name, "a name"))]
Names = Annotated[tuple[Name, ...], Field(min_length=1), AfterValidator(_distinct)]
Digest = Annotated[str, AfterValidator(check_digest)]
FieldName = Annotated[str, Field(max_length=LONGEST_LABEL), AfterValidator(_printable)]
FieldSum = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
Text = Annotated[str, Field(max_length=LONGEST_TEXT), AfterValidator(_printable)]
ClassNames = Annotated[ClassLabels, PlainValidator(check_labels)]
Measure = Annotated[str, AfterValidator(_measure)]
Positive = Annotated[float, Field(gt=0)]
Count = Annotated[int, Field(ge=1, lt=LARGEST_INTEGER)]
Filled = Annotated[Content, AfterValidator(_not_empty)]
Rows = Annotated[NDArray[Any], ArrayField("f", (2,)), AfterValidator(_table)]
Values = Annotated[NDArray[Any], ArrayField("f", (2,), finite=False), AfterValidator(_table)]


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
        Bytes of the whole message.
    """

    max_rows: int = 100_000
    max_features: int = 100_000
    max_classes: int = 10_000
    max_bytes: int = 256 * 2**20

    def __post_init__(self) -> None:
        check_parameters(self, dict.fromkeys(vars(self), Whole(1)))

    def check(self, fields: Any, arrays: Arrays) -> None:
        """Refuse by size first: nothing else of a message is looked at before that."""
        plain = fields if isinstance(fields, dict) else {}
        sides = {"classes": self.max_classes, "schema_fields": self.max_features}
        too_large = any(
            isinstance(plain.get(name), list) and len(plain[name]) > most for name, most in sides.items()
        )
        n_features = plain.get("n_features")
        too_large |= type(n_features) is int and n_features > self.max_features
        for name, most in (("features", self.max_features), ("values", self.max_classes)):
            shape: tuple[int, ...] = arrays[name].shape if name in arrays else ()
            too_large |= len(shape) == 2 and (shape[0] > self.max_rows or shape[1] > most)
        if too_large:
            raise MessageError("the message is larger than allowed")


# --- messages -----------------------------------------------------------------------------------------------


KINDS: dict[str, type["Message"]] = {}


class Message(Record):
    """What server, sites and queriers send each other; inside another record it keeps its kind."""

    error = MessageError
    apart = True

    def __init_subclass__(cls, kind: str | None = None, **rest: Any) -> None:
        """Enter a kind of message among those that :func:`from_bytes` reads."""
        super().__init_subclass__(kind=kind, **rest)
        if kind is not None:
            KINDS[kind] = cls


class _MessageField:
    """A message inside another record."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> Any:
        def checked(value: Any, info: ValidationInfo) -> Message:
            found = named_content(value, info)
            found = from_bytes(found) if isinstance(found, bytes) else found
            if not isinstance(found, source):
                raise MessageError("must be a message of the right kind")
            return found  # type: ignore[no-any-return]

        return core_schema.with_info_plain_validator_function(checked)


CARRIED = _MessageField()


@record
class Bundle(Record, kind="bundle"):
    """Several runs of bytes, carried or kept as one.

    Parameters
    ----------
    parts : tuple of bytes
        The runs; nothing looks inside.
    """

    error = MessageError

    parts: tuple[Content, ...]


def _check_scale(measure: str, scale: float | None) -> None:
    """A number for the folding and the joined measures; None for distances and moments, which have none."""
    if (scale is None) != (measure in ("euclidean", MOMENTS, NUMBERS)):
        raise MessageError(
            "scale must be a positive finite number for the folding and joined measures, None for others"
        )


@record
class Query(Message, kind="query"):
    """Rows that sites are asked about.

    Parameters
    ----------
    id : str
        Name of the query, which the answers repeat.
    features : ndarray of shape (n, p)
        The rows, in float32 or float64.
    """

    id: Name
    features: Rows = field(repr=False)  # a log must not show rows


@record
class Answers(Message, kind="answers"):
    """What a site answers: one number per row and class it has.

    Parameters
    ----------
    query_id, site : str
        Names of the query and of the site.
    classes : tuple of int or of str
        ClassNames of the columns.
    measure : str
        Name of the measure.
    scale : float or None
        Factor at which a folding measure sees the data, weight of the public offset for the joined measure;
        None for the distance.
    values : ndarray of shape (n, C)
        The measures, in float32 or float64.
    """

    query_id: Name
    site: Name
    classes: ClassNames
    measure: Measure
    scale: Positive | None
    values: Values = field(repr=False)

    def __post_init__(self) -> None:
        if self.measure in (MOMENTS, NUMBERS):
            raise MessageError("a site that sends moments answers no queries")
        _check_scale(self.measure, self.scale)
        if self.values.shape[1] != len(self.classes):
            raise MessageError("values must have one column per class")
        # Comparisons with NaN are false, so NaN is refused too.
        if not np.all((self.values >= 0) & (self.values <= self.largest)):
            raise MessageError("values must lie within the range of the measure and must not be NaN")

    @property
    def largest(self) -> float:
        """The maximum of the measure: the answer for a class that the site lacks."""
        return MAXIMA[self.measure]


@record
class Profile(Message, kind="profile"):
    """What a site says about itself when it joins.

    Parameters
    ----------
    site : str
        Name of the site.
    classes : tuple of int or of str
        ClassNames the site has rows of.
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

    site: Name
    classes: ClassNames
    measure: Measure
    scale: Positive | None
    n_features: Count
    guarantee: Annotated[dict[str, Any] | None, PlainValidator(check_guarantee)]
    model_digest: Digest
    columns: Digest | None = None
    schema: Digest | None = None
    schema_fields: tuple[tuple[FieldName, FieldSum], ...] = ()
    sums: Digest | None = None

    def __post_init__(self) -> None:
        _check_scale(self.measure, self.scale)
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


@record
class ModelParcel(Message, kind="model parcel"):
    """A private model that travels.

    Whether the model in it really is private is checked where it is opened, see
    :meth:`onefold.federated.LocalModel.from_parcel`.

    Parameters
    ----------
    site : str
        Name of the site.
    content : bytes
        The model as a file of :mod:`onefold.io`.
    """

    site: Name
    content: Filled = field(repr=False)


@record
class PlainSums(Message, kind="plain sums"):
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

    site: Name
    schema: Digest
    radius: Positive
    n_directions: Annotated[int, Field(ge=0, le=Limits().max_features)]
    content: Filled = field(repr=False)


@record
class PrivateSums(Message, kind="private sums"):
    """The private moments of one site, sent once; they carry their guarantee.

    Whether they are moments with a guarantee that holds is checked where they are opened.

    Parameters
    ----------
    site : str
        Name of the site.
    content : bytes
        The moments, as :meth:`onefold.privacy.PrivateMoments.to_bytes` writes them.
    """

    site: Name
    content: Filled = field(repr=False)


@record
class PublicScores(Message, kind="public scores"):
    """What the server of a joined federation computed from the sums, sent to the sites with every query.

    Parameters
    ----------
    content : bytes
        The scores, as :meth:`onefold.federated.Offset.to_bytes` writes them.
    """

    content: Filled = field(repr=False)


@record
class Failure(Message, kind="failure"):
    """That a site did not answer, and why.

    Parameters
    ----------
    query_id, site : str
        Names of the query and of the site.
    code : FailureCode
        The reason, one of the fixed words.

    Examples
    --------
    >>> failure = Failure("q1", "north", FailureCode.RATE_LIMITED)
    >>> from_bytes(failure.to_bytes()).code
    <FailureCode.RATE_LIMITED: 'rate-limited'>
    """

    query_id: Name
    site: Name
    code: Annotated[FailureCode, Field(strict=False)]


@record
class Refusal(Message, kind="refusal"):
    """That the server keeps a site out, and why.

    Parameters
    ----------
    site : str
        Name of the site.
    reason : str
        One printable line.
    """

    site: Name
    reason: Annotated[Text, Field(min_length=1)]


@record
class SiteFacts(Message, kind="site facts"):
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

    site: Name
    onefold: Text
    flower: Text
    rows: Annotated[int, Field(ge=0, lt=LARGEST_INTEGER)] | None
    budget: Text | None


@record
class QueryKey(Message, kind="query key"):
    """The public part of a querier's key, and what its numbers mean, the same for all sites.

    A measure d becomes ``rint((2**bits - 1) * s**power)``, where ``s = (d - floor) / (bound - floor)`` is cut
    off at 0 and 1. With several looks or with knots the map is that of
    :class:`onefold.federated.fhe.quantiser.MeasureMap`.

    Parameters
    ----------
    key_id : str
        SHA-256 sum that names the key.
    classes : tuple of int or of str
        ClassNames of the columns of answers.
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

    key_id: Digest
    classes: ClassNames
    bits: Annotated[int, Field(ge=1, le=32)]
    bound: float
    power: Positive
    floor: Annotated[float, Field(ge=0)]
    content: Filled = field(repr=False)
    looks: Annotated[int, Field(ge=1, le=MOST_LOOKS)] = 1
    knots: Annotated[tuple[float, ...], Field(max_length=MOST_KNOTS), AfterValidator(_increasing)] = ()

    def __post_init__(self) -> None:
        if self.floor >= self.bound:
            raise MessageError("a query key needs a floor below its bound")
        if self.knots and (self.knots[0], self.knots[-1], 1.0) != (self.floor, self.bound, self.power):
            raise MessageError("the knots of a query key must go from its floor to its bound, with power 1")


@record
class SealedAnswers(Message, kind="sealed answers"):
    """The encrypted answers of a site to one query.

    Parameters
    ----------
    query_id, site : str
        Names of the query and of the site.
    content : bytes
        The answers, encrypted under a query key.
    """

    query_id: Name
    site: Name
    content: Filled = field(repr=False)


@record
class SealedResult(Message, kind="sealed result"):
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

    query_id: Name
    sites: Names
    content: Filled = field(repr=False)


SumStep = Literal["contribute", "check", "sign", "answer"]


@record
class SumParcel(Message, kind="sum parcel"):
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

    query_id: Name
    site: Name
    step: SumStep
    content: Filled = field(repr=False)


def from_bytes(data: bytes, limits: Limits | None = None) -> Message:
    """Read a message of any kind; nothing in it is executed, and every field is checked.

    Parameters
    ----------
    data : bytes
        What ``to_bytes`` of a message wrote.
    limits : Limits or None, default=None
        The largest message that is read; None stands for ``Limits()``.

    Returns
    -------
    Message
        The message.

    Raises
    ------
    MessageError
        If anything about the message is wrong; the text quotes nothing of it.
    """
    limits = Limits() if limits is None else limits
    if not isinstance(data, bytes):
        raise MessageError("a message must be bytes")
    if len(data) > limits.max_bytes:
        raise MessageError("the message is larger than allowed")
    kind = KINDS.get(kind_of(data) or "")
    if kind is None:
        raise MessageError("the message is damaged, or of an unknown kind")
    return kind.from_bytes(data, limits.max_bytes, limits.check)
