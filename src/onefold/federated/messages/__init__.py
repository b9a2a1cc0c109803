"""The messages of a federation: a few frozen classes, one version, no pickle.

Every message checks itself when it is made, by the sender and by the receiver. It travels as *parts* (a
header of JSON values and named arrays, for runtimes with records of their own) or as *bytes* (one frame with
a checksum). Reading either refuses whatever is malformed, of another version, or larger than the
:class:`Limits`, with a :class:`~onefold.exceptions.MessageError` that quotes nothing of what was received.

Encrypted queries use three more messages. A :class:`QueryKey` goes with queries to the sites; each site
replies with :class:`SealedAnswers`; the server makes one :class:`SealedResult` of them. Their contents are
messages of :mod:`onefold.federated.fhe`, which a runtime carries without looking inside.

A joined federation uses two more. Each site that has agreed to it sends :class:`PlainSums` once; the server
sends :class:`PublicScores` of their sum along with every query. Their contents are those of
:mod:`onefold.federated.joined`.

A federation of private moments uses one: each site sends :class:`PrivateSums` once, with a guarantee, and the
server answers queries from their sum.

Encrypted sums use one for all their steps, in both directions: a :class:`SumParcel`. Its content is bytes of
:mod:`onefold.federated.secret`, which a runtime carries without looking inside.
"""

from onefold.federated.messages._fields import (
    LONGEST_LABEL,
    LONGEST_TEXT,
    MOMENTS,
    NUMBERS,
    ClassLabels,
    check_digest,
    check_guarantee,
    check_labels,
    check_name,
    columns_digest,
    is_text,
    plain_labels,
)
from onefold.federated.messages._kinds import (
    MOST_LOOKS,
    Answers,
    Failure,
    FailureCode,
    Limits,
    ModelParcel,
    PlainSums,
    PrivateSums,
    Profile,
    PublicScores,
    Query,
    QueryKey,
    Refusal,
    SealedAnswers,
    SealedResult,
    SiteFacts,
    SumParcel,
)
from onefold.federated.messages._parts import VERSION, Message, from_bytes, from_parts, to_bytes, to_parts

__all__ = [
    "LONGEST_LABEL",
    "LONGEST_TEXT",
    "MOMENTS",
    "MOST_LOOKS",
    "NUMBERS",
    "VERSION",
    "Answers",
    "ClassLabels",
    "Failure",
    "FailureCode",
    "Limits",
    "Message",
    "ModelParcel",
    "PlainSums",
    "PrivateSums",
    "Profile",
    "PublicScores",
    "Query",
    "QueryKey",
    "Refusal",
    "SealedAnswers",
    "SealedResult",
    "SiteFacts",
    "SumParcel",
    "check_digest",
    "check_guarantee",
    "check_labels",
    "check_name",
    "columns_digest",
    "from_bytes",
    "from_parts",
    "is_text",
    "plain_labels",
    "to_bytes",
    "to_parts",
]
