"""The documents' transfer (001 Sec. 4.2): label the target step by step, map source to target, ask three.

It works in the source space, on rows that were brought there by eq. 79 or a map. All distances are squared,
as in (87).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from onefold._base.arrays import Array, Floats, Index
from onefold.models import Autoencoder, AutoencoderClassifier, MembershipMapping, WideMembershipAutoencoder
from onefold.transfer._description import Description
from onefold.transfer.alignment import Way
from onefold.transfer.learners import adapted
from onefold.transfer.pool import Decision

THREE = ("target", "mapping", "source")  # the experts of (87)
LARGEST_INITIAL = 20  # 001 Sec. 5: n of the initial target classifier is at most this
# Images of queries held at once, per class.
BLOCK_VALUES = 8_000_000


@dataclass(frozen=True)
class Documented:
    """A fitted target classifier, a source-to-target mapping, and the source: the three experts of (87)."""

    way: Way
    target: AutoencoderClassifier
    target_codes: Index  # class of each autoencoder of the target
    mapping: MembershipMapping | None
    n_classes: int

    def decide(self, rows: Array) -> Decision:
        """Take the class that any of the three experts finds nearest (87)."""
        found = np.sqrt(self.expert_distances(self.way(rows)))
        nearest = found.min(axis=0)
        codes = nearest.argmin(axis=1)
        expert = found[:, np.arange(len(codes)), codes].argmin(axis=0)
        return Decision(nearest, THREE, expert, found[0].argmin(axis=1))

    def expert_distances(self, rows: Array) -> Floats:
        """Return squared distances to each class by each expert, (3, n, C); infinite where one has none."""
        found = np.full((len(THREE), len(rows), self.n_classes), np.inf)
        found[0][:, self.target_codes] = self.target.distances(rows).astype(np.float64) ** 2
        source = self._source
        if source is None or self.mapping is None:
            return found
        step = max(1, BLOCK_VALUES // max(1, rows.shape[1]))
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            for code in range(self.n_classes):
                image = source.image(rows[block], code)
                found[1][block, code] = _squared(rows[block], self.mapping.predict(image))
                found[2][block, code] = _squared(rows[block], image)
        return found

    @property
    def _source(self) -> Description | None:
        return None if self.way.source is None else self.way.source.description_


def fit_documented(
    way: Way,
    rows: Array,
    codes: Index,
    n_classes: int,
    estimator: Autoencoder | None,
    components: Sequence[int],
    max_inducing: int,
) -> Documented:
    """Do everything after (79) on rows of the target; ``codes`` is -1 for rows without a label."""
    prototype = WideMembershipAutoencoder(random_state=0) if estimator is None else estimator
    placed, known = way(rows), np.unique(codes[codes >= 0])  # (80), (81)
    target, labelled = label_step_by_step(prototype, placed, codes, components)
    mapping = None
    if way.source is not None:
        images = np.empty_like(placed)
        for code in known:
            mine = labelled == code
            images[mine] = way.source.description_.image(placed[mine], int(code))  # (84)
        mapping = MembershipMapping(0.5, max_inducing).fit(images, placed)  # (85), (86)
    return Documented(way, target, known, mapping, n_classes)


def label_step_by_step(
    prototype: Autoencoder, rows: Array, codes: Index, components: Sequence[int]
) -> tuple[AutoencoderClassifier, Index]:
    """Fit the target classifier and label every row, by (82) and (83) for each n of ``components``."""
    free, labelled = codes < 0, codes.copy()
    smallest = int(np.unique(codes[~free], return_counts=True)[1].min())
    first = adapted(
        prototype, n_components=min(LARGEST_INITIAL, max(1, smallest - 1)), n_layers=1, inducing_ratio=1.0
    )
    classifier = AutoencoderClassifier(first).fit(rows[~free], codes[~free])
    if not free.any():
        components = components[-1:]  # nothing to label: only the last classifier matters
    for n in components:
        if free.any():
            labelled[free] = classifier.predict(rows[free])  # (83), and before it the initial labels
        classifier = AutoencoderClassifier(adapted(prototype, n_components=int(n))).fit(
            rows, labelled
        )  # (82)
    if free.any():
        labelled[free] = classifier.predict(rows[free])  # (83)
    return classifier, labelled


def _squared(rows: Array, images: Array) -> Floats:
    return np.asarray(np.sum((rows.astype(np.float64) - images) ** 2, axis=1))
