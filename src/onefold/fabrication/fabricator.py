"""Private synthetic data: noise on every entry, then smoothing (000 Def. 14 and Remark 4, 004 Sec. 3.8)."""

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_consistent_length, column_or_1d

from onefold._base.arrays import Array, Index
from onefold._base.parallel import run_parallel
from onefold._base.validation import check_rows, check_whole_number
from onefold.exceptions import InvalidInputError, PrivacyLeakWarning
from onefold.fabrication import _steps
from onefold.fabrication._division import divide_noisy, divide_raw
from onefold.fabrication._stein import honest
from onefold.privacy import Guarantee, Mechanism, RandomisedLabels

__all__ = ["Fabricator"]

LOOKED = "the number of smoothing steps was chosen by looking at the raw data, and so was the partition"


class Fabricator(BaseEstimator):
    """Replaces every row by a private one: noise, smoothing, and the image under the smoothed data's machine.

    Parameters
    ----------
    mechanism : Mechanism
        The noise; its guarantee is the guarantee of the result.
    n_components : int, default=20
        Dimension of the encoding used in smoothing.
    stopping : {"honest", "documented"} or int, default="honest"
        How often to smooth. "honest" looks only at the noisy data and the public variance of the noise.
        "documented" follows the documents, which compare with the raw data: **that voids the guarantee**.
        A number fixes it.
    branch_size : int, default=1000
        Larger classes are split into branches of about this size, after the noise: into clusters of principal
        components freed of it or, where nearly everything is noise, into consecutive rows.
        "documented" follows 000 Remark 4 and splits raw data by k-means.
    form : {"image", "smoothed"}, default="image"
        What is released: the images of the smoothed rows (000 Def. 14) or the smoothed rows (004 eq. 144).
        "documented" stopping follows 000 eq. 92 for the first and 004 eq. 145 for the second.
    label_mechanism : RandomisedLabels or None, default=None
        Labels are released as they are unless this randomises them; then smoothing uses the random ones.
    clip : bool, default=False
        Move the result into the mechanism's declared domain. This is post-processing.
    n_jobs : int or None, default=None
        Worker threads.

    Attributes
    ----------
    guarantee_ : Guarantee
        What the last call promises; see ``voided_by``.
    n_steps_ : list of int
        How often each branch was smoothed.
    labels_ : ndarray or None
        The labels that belong to the fabricated rows.

    Guarantees
    ----------
    With ``stopping="honest"`` or a number, everything after the noise is a function of the noisy data, the
    labels and public numbers: the result is as private as the noise, per entry and per record, and no more.
    Labels, class sizes and the number of rows are released as they are unless ``label_mechanism`` is given.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        n_components: int = 20,
        stopping: str | int = "honest",
        branch_size: int = 1000,
        *,
        form: str = "image",
        label_mechanism: RandomisedLabels | None = None,
        clip: bool = False,
        n_jobs: int | None = None,
    ) -> None:
        self.mechanism = mechanism
        self.n_components = n_components
        self.stopping = stopping
        self.branch_size = branch_size
        self.form = form
        self.label_mechanism = label_mechanism
        self.clip = clip
        self.n_jobs = n_jobs

    def fabricate(self, X: Any, y: ArrayLike | None = None, random_state: Any = None) -> Any:
        """Private rows in the place of those of ``X``, class by class where labels ``y`` are given.

        Row i of the result stands for row i of ``X``. A data frame comes back with its columns, index and
        types. Without ``random_state`` the noise comes from the entropy of the system; a seed is for tests.
        """
        raw, noisy, labels = self._noisy(X, y, random_state)
        self.guarantee_ = self._promise(raw)
        result = self._smooth(raw, noisy, labels)
        if self.clip and self.mechanism.domain is not None:
            result = np.asarray(self.mechanism.domain.clip(result), dtype=raw.dtype)
        return _like(X, result)

    def randomise(self, X: Any, y: ArrayLike | None = None, random_state: Any = None) -> Any:
        """The rows with the noise alone, not smoothed (000 Alg. 1)."""
        raw, noisy, _ = self._noisy(X, y, random_state)
        self.guarantee_ = self._promise(raw, looked=False)
        return _like(X, noisy)

    def smooth(self, noisy: ArrayLike, y: ArrayLike | None = None) -> Array:
        """The second half of :meth:`fabricate`, for rows that are noisy already: post-processing, no noise.

        Each class is smoothed by itself, so a class without changed rows need not be smoothed again.
        """
        self._check_parameters()
        if self.stopping == "documented":
            raise InvalidInputError('stopping="documented" looks at raw rows: use "honest" or a number')
        rows = check_rows(self, noisy)
        labels = None if y is None else column_or_1d(y)
        result = self._smooth(rows, rows, labels)
        if self.clip and self.mechanism.domain is not None:
            result = np.asarray(self.mechanism.domain.clip(result), dtype=rows.dtype)
        return result

    def _noisy(
        self, X: Any, y: ArrayLike | None, random_state: Any
    ) -> tuple[Array, Array, NDArray[Any] | None]:
        self._check_parameters()
        # No seed stays no seed, so that a hardened mechanism takes its own cryptographic stream.
        rng = None if random_state is None else np.random.default_rng(random_state)
        raw = check_rows(self, X)
        labels = self._labels(raw, y, rng)
        return raw, np.asarray(self.mechanism.randomise(raw, rng), dtype=raw.dtype), labels

    def _labels(
        self, raw: Array, y: ArrayLike | None, rng: np.random.Generator | None
    ) -> NDArray[Any] | None:
        if y is None:
            if self.label_mechanism is not None:
                raise InvalidInputError("label_mechanism needs labels y")
            self.labels_ = None
            return None
        labels: NDArray[Any] = column_or_1d(y)
        check_consistent_length(raw, labels)
        if self.label_mechanism is not None:
            labels = np.asarray(self.label_mechanism.randomise(labels, rng))
        self.labels_ = labels
        return labels

    def _promise(self, raw: Array, looked: bool = True) -> Guarantee:
        guarantee = self.mechanism.guarantee(raw.shape[1], len(raw))
        if self.label_mechanism is not None:
            guarantee = guarantee.with_labels(self.label_mechanism.epsilon)
        if looked and self.stopping == "documented":
            warnings.warn(
                f"{LOOKED}: the guarantee of the noise does not hold for the result; use stopping='honest'",
                PrivacyLeakWarning,
                stacklevel=3,
            )
            guarantee = guarantee.voided(LOOKED)
        return guarantee

    def _smooth(self, raw: Array, noisy: Array, labels: NDArray[Any] | None) -> Array:
        codes = (
            np.zeros(len(raw), dtype=np.intp) if labels is None else np.unique(labels, return_inverse=True)[1]
        )
        groups = [np.flatnonzero(codes == code) for code in range(codes.max(initial=0) + 1)]
        if self.stopping == "documented":
            branches = divide_raw(raw, groups, self.branch_size)
        else:
            branches = divide_noisy(noisy, groups, self.branch_size, self.mechanism.variance)

        def fabricate(rows: Index) -> _steps.Fabrication:
            return self._fabricate_branch(noisy[rows], raw[rows])

        done = run_parallel(fabricate, branches, self.n_jobs, "fabricating", show_progress=None)
        result = np.empty_like(noisy)
        for rows, made in zip(branches, done, strict=True):
            result[rows] = made.images if self.form == "image" else made.smoothed
        self.n_steps_ = [made.n_steps for made in done]
        return result

    def _fabricate_branch(self, noisy: Array, raw: Array) -> _steps.Fabrication:
        step = _steps.stepper(self.n_components, 1.0)
        if self.stopping == "honest":
            return honest(noisy, step, self.mechanism.variance)
        if self.stopping == "documented":
            rule = _steps.documented_images if self.form == "image" else _steps.documented_smoothing
            return rule(noisy, step, raw)
        return _steps.fixed(noisy, step, int(self.stopping))

    def _check_parameters(self) -> None:
        if not isinstance(self.mechanism, Mechanism):
            raise InvalidInputError("mechanism must be a noise of onefold.privacy, such as OptimalNoise(1.0)")
        check_whole_number("n_components", self.n_components)
        check_whole_number("branch_size", self.branch_size)
        if self.form not in ("image", "smoothed"):
            raise InvalidInputError('form must be "image" or "smoothed"')
        if self.stopping not in ("honest", "documented"):
            if isinstance(self.stopping, str):
                raise InvalidInputError('stopping must be "honest", "documented" or a number of steps')
            check_whole_number("stopping", self.stopping, at_least=0)


def _like(X: Any, values: Array) -> Any:
    """Values in the container of ``X``: a frame keeps names, index and types; whole numbers are rounded."""
    if not hasattr(X, "columns"):
        return values
    frame = type(X)(values, columns=X.columns, index=X.index)
    for column, kind in X.dtypes.items():
        whole = np.issubdtype(np.dtype(kind), np.integer)
        frame[column] = frame[column].round().astype(kind) if whole else frame[column].astype(kind)
    return frame
