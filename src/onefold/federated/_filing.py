"""A local model as a file: what is in it, and what is not."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self, cast

from sklearn.base import clone

from onefold import io
from onefold.exceptions import InvalidInputError
from onefold.fabrication import PrivateClassifier
from onefold.federated._answering import Answering
from onefold.federated._identifiers import identifiers
from onefold.federated._rows import Rows
from onefold.federated._settings import RowChecks, Settings
from onefold.models import StackMemory

__all__ = ["Filed"]


class Filed(Answering):
    """A local model that can be written to a file and read again."""

    estimator_: Any
    _rows: Rows
    _settings: Settings
    _checked: RowChecks
    _memory: StackMemory
    _ids: Any
    _partition_given: bool

    def save(self, path: str | os.PathLike[str], *, with_rows: bool = True) -> None:
        """Write the fitted model to a file, without pickle.

        The file holds the rows the model was fitted on: noisy or fabricated ones with a mechanism, **raw ones
        without**. ``with_rows`` adds what :meth:`forget` needs, in the same privacy, at twice the size.
        Identifiers of rows are never in the file.
        """
        rows = getattr(self, "_rows", None)
        extras = rows.to_arrays() if with_rows and rows is not None else None
        io.save(cast(Any, self._fitted()), path, extras)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, like: Any = None, ids: Sequence[Any] | None = None
    ) -> Self:
        """The model that :meth:`save` wrote, with its guarantee.

        Parameters
        ----------
        like : a LocalModel with the mechanism and settings of the saved one, for :meth:`extend`, for
            :meth:`forget` of fabricated rows, and for fitting anew: mechanisms are not in the file.
        ids : identifiers of all rows that ever came, if :meth:`forget` is to be called with them.
        """
        estimator = io.load(path)
        if not hasattr(estimator, "distances"):
            raise InvalidInputError("the file holds no classifier")
        model = cls._of(estimator, like)
        arrays = io.load_extras(path)
        if arrays:
            model._rows = Rows.from_arrays(arrays)
            model._ids = identifiers(ids, model._rows.n_ever, model._rows.numbers)
        return model

    @classmethod
    def _of(cls, estimator: Any, like: Any = None) -> Self:
        make = cast(Any, cls)  # LocalModel, which says what it is made of
        model = make(clone(estimator))
        if like is not None:
            source = like.estimator if isinstance(like.estimator, PrivateClassifier) else clone(estimator)
            model = make(
                source,
                like.mechanism,
                fabricate=like.fabricate,
                label_mechanism=like.label_mechanism,
                random_state=like.random_state,
            )
        model.estimator_ = estimator
        model._checked = RowChecks.like(estimator)
        model._settings = Settings.of(model)
        model._settings.must_be_private = model.guarantee_ is not None
        model._memory, model._ids, model._partition_given = StackMemory(), None, False
        return cast(Self, model)
