"""Tables of sites by their declared contract: rows, labels and scale that are equal at all sites.

All of it follows from the schema and from one row at a time, so that sites need no message to prepare their
tables alike.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from onefold._base.arrays import Floats, Labels
from onefold.exceptions import InvalidInputError, printable
from onefold.federated.messages import LONGEST_LABEL, Profile
from onefold.models import FoldingClassifier
from onefold.models.folding import AUTO_MEAN_SQUARE
from onefold.privacy import Mechanism
from onefold.privacy.contract import EncodedBox, contract_rows, domain_of
from onefold.tables import Schema
from onefold.tables.schema import differing

__all__ = [
    "check_query_schema",
    "check_schemas",
    "class_labels",
    "class_list",
    "default_classifier",
    "encoded_table",
    "message_classes",
    "schema_fields",
    "schema_scale",
]


# --- tables -----------------------------------------------------------------------------------------------


def encoded_table(
    schema: Schema, X: Any, y: Any = None, mechanism: Mechanism | None = None
) -> tuple[Floats, Labels]:
    """Rows and labels of a table to be fitted, with or without noise.

    Without noise, a cell that has no value in the contract is refused. With noise an error would be an
    answer about the data: such cells are mapped by the rules of the contract. The noise must be that of the
    schema's own domain, which knows how many entries one cell moves.
    """
    if schema.plain:
        return schema.transform(X), class_labels(schema, X, y)
    if mechanism is None:
        return schema.encode(schema.parse(X)), class_labels(schema, X, y)
    domain = mechanism.domain
    if not isinstance(domain, EncodedBox) or domain.cells != domain_of(schema).cells:
        raise InvalidInputError("the noise needs the domain of the schema: sensitivity=domain_of(schema)")
    found = contract_rows(schema, X, y, person=False)
    if found.labels is None:
        schema.labels(X)  # says what is missing
    return found.rows, _plain(np.asarray(found.labels), () if schema.label is None else schema.label.levels)


def class_labels(schema: Schema, X: Any, y: Any = None) -> Labels:
    """Labels of a table, or of ``y``, as messages can carry them.

    Which type they have follows from the declaration: truth values become the texts "false" and "true",
    numbers that are not all whole become texts.
    """
    label = schema.label
    if label is None or not label.is_category:
        if y is None and schema.plain:
            raise InvalidInputError("y is missing: give the labels, or a schema that names their column")
        if y is None:
            schema.labels(X)  # says what is missing
        return np.asarray(y)
    return _plain(schema.labels(X if y is None else {label.name: y})[0], label.levels)


def class_list(schema: Schema) -> Labels:
    """The declared classes in the types of :func:`class_labels`, sorted."""
    classes = schema.classes
    if schema.label is None or classes is None:
        raise InvalidInputError("the schema declares no classes")
    return np.sort(_plain(classes, schema.label.levels))


def message_classes(classes: Labels) -> Labels:
    """Classes in the types of :func:`class_labels`, in the given order."""
    return _plain(classes, classes.tolist() if classes.dtype.kind == "f" else ())


def _plain(labels: Labels, levels: Sequence[Any]) -> Labels:
    if labels.dtype.kind == "b":
        return np.where(labels, "true", "false")
    if labels.dtype.kind == "f":
        whole = all(float(level).is_integer() for level in levels)
        return labels.astype(np.int64 if whole else np.str_)
    return labels


def schema_scale(schema: Schema) -> float:
    """The factor at which machines see encoded rows: from the declaration alone, so equal at all sites.

    It brings the mean square of the entries to that which "auto" aims at, if numbers are in the middle of
    their ranges.
    """
    square = sum(0.5 if known.is_category else 0.25 for known in schema.features)
    return math.sqrt(AUTO_MEAN_SQUARE * schema.width / square)


def default_classifier(schema: Schema) -> FoldingClassifier:
    """The classifier of a site that names none: small machines are steadier on encoded rows."""
    return FoldingClassifier(scale=schema_scale(schema))


# --- comparing contracts ----------------------------------------------------------------------------------


def check_schemas(one: Schema, other: Schema) -> None:
    """Refuse sites whose tables have different contracts, naming the first difference."""
    if one.plain != other.plain:
        raise InvalidInputError("some sites use a schema and others do not: give all the same schema")
    if one.digest != other.digest:
        raise InvalidInputError(f"the schemas of two sites differ: {other.difference(one)}")


def check_query_schema(schema: Schema, profiles: Iterable[Profile]) -> None:
    """Refuse a query that is not encoded by the contract of the sites, naming the first difference."""
    digest = None if schema.plain else schema.digest
    for profile in profiles:
        if profile.schema == digest:
            continue
        if schema.plain:
            raise InvalidInputError("the sites have a schema: give it with the query (--schema FILE)")
        if profile.schema is None:
            raise InvalidInputError("the sites have no schema: ask about rows of numbers, without one")
        where = differing(profile.schema_fields, schema_fields(schema.field_digests))
        raise InvalidInputError(f"the schema is not that of the sites: {where or 'the digest'}")


def schema_fields(sums: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Return the names and sums of ``Schema.field_digests`` as messages carry them.

    What cannot be printed is escaped, and a long name is cut off: the sums are of whole names.
    """
    return tuple((printable(name)[:LONGEST_LABEL], total) for name, total in sums)
