"""Conditionally deep membership-mapping autoencoders (001 Alg. 2, Def. 11) as stacks of one machine.

Mappings are fitted onto coordinates of the hull of the samples, so nothing has p columns after the
first product.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array, Index, Mask
from onefold.models._hull import Hull, centre
from onefold.models._layers import LayeredStack
from onefold.models.membership._core import Inputs, Mapping, Targets, fit_mapping, solve_mapping
from onefold.models.membership._frame import Frame, build_frame

__all__ = ["MappingLayer", "MappingStack", "fit_stack", "rebuild_stack", "stack_state"]


@dataclass(frozen=True)
class MappingLayer:
    """One membership-mapping autoencoder (001 Def. 2)."""

    mapping: Mapping
    axes: Array  # (r, n_l) hull coordinates to encodings: P^l of 001 Alg. 2
    offset: Array  # (r,) from outputs to hull coordinates, which are seen from the mean
    n_samples: int  # it was fitted to; the hull may hold another row
    copies: int = 1  # as if there were so many equal machines, for queries one by one

    @property
    def active(self) -> Mask:
        """Every machine has every layer."""
        return np.ones(self.copies, dtype=bool)

    @property
    def width(self) -> int:
        """One kernel value per inducing point."""
        return len(self.mapping.inputs.inducing)

    def select(self, index: int | Index) -> "MappingLayer":
        """The layer itself, or several times: there is one machine."""
        return replace(self, copies=len(index)) if isinstance(index, np.ndarray) else self

    def image(self, hull: Hull, points: Array, inside: Array) -> Array:
        """Coordinates of the images of points (001 eq. 60, 63), (copies, r, M)."""
        copies, rank, n_queries = points.shape
        columns = points[0] if copies == 1 else points.transpose(1, 0, 2).reshape(rank, -1)
        kernel = self.mapping.inputs.kernel(columns.T.astype(np.float64) @ self.axes)
        images = self.mapping.weights.T @ kernel.T
        if self.offset.any():
            images -= self.offset[:, None]
        stacked = images.reshape(rank, copies, n_queries).transpose(1, 0, 2)
        return np.ascontiguousarray(stacked, dtype=points.dtype)


MappingStack = LayeredStack[MappingLayer]


def fit_stack(
    samples: Array, n_components: int, n_layers: int, at_most: int, factor: float, centred: bool = True
) -> MappingStack:
    """Fit one machine to samples (1, N, p), with at most so many inducing points, seen ``factor`` times.

    ``centred`` mappings model deviations from the mean, others the samples as they are.
    """
    return _fit(build_frame(*centre(samples), n_components, centred), n_layers, at_most, factor)


def _fit(frame: Frame, n_layers: int, at_most: int, factor: float) -> MappingStack:
    targets = Targets.of(frame.targets, frame.hull.mean.shape[1], factor)
    layers: list[MappingLayer] = []
    kernel, clusters = None, None
    for depth in range(n_layers):
        x = _encodings(frame, depth, layers, kernel)
        mapping, kernel, clusters = fit_mapping(x, targets, at_most, clusters)
        at_most = len(mapping.inputs.inducing)  # 001 eq. 62
        layers.append(_layer(frame, depth, mapping))
    return LayeredStack(frame.hull, tuple(layers))


def _layer(frame: Frame, depth: int, mapping: Mapping) -> MappingLayer:
    complete = replace(mapping, weights=frame.expand(mapping.weights))
    return MappingLayer(complete, frame.axes(depth), frame.offset, len(frame.points))


def _encodings(frame: Frame, depth: int, layers: list[MappingLayer], kernel: Array | None) -> Array:
    """Encodings of the samples (001 eq. 61), from the mean, given the kernel values of the layer before.

    Its outputs are never needed themselves, only what is encoded of them.
    """
    axes = frame.axes(depth)
    if kernel is None:
        return np.asarray(frame.points @ axes)
    return np.asarray(kernel @ (layers[-1].mapping.weights @ axes) - frame.offset @ axes)


def stack_state(stack: MappingStack) -> dict[str, NDArray[Any]]:
    """Samples, inducing points and regularisations: weights are solved for again when loading."""
    mappings = [layer.mapping for layer in stack.layers]
    parts = [mapping.inputs for mapping in mappings]
    return {
        "centred": stack.hull.centred[:, : stack.layers[0].n_samples],
        "mean": stack.hull.mean,
        "lambdas": np.array([[mapping.ridge, mapping.tau, mapping.variance] for mapping in mappings]),
        "shapes": np.array([part.inducing.shape for part in parts], dtype=np.int64),
        "inducing": np.concatenate([part.inducing.ravel() for part in parts]),
        "shift": np.concatenate([part.shift for part in parts]),
        "inverse_range": np.concatenate([part.inverse_range for part in parts]),
    }


def rebuild_stack(
    state: dict[str, NDArray[Any]], n_components: int, n_layers: int, centred: bool = True
) -> MappingStack:
    """The machine that :func:`stack_state` described."""
    frame = build_frame(state["centred"], state["mean"], n_components, centred)
    shapes, n_samples = state["shapes"], len(frame.points)
    if shapes.shape != (n_layers, 2) or len(frame.hull.mean) != 1 or not ((shapes[:, 0] >= 1).all()):
        raise ValueError("the layers do not fit the parameters")
    if (shapes[:, 0] > n_samples).any():
        raise ValueError("there are more inducing points than samples")
    counts, widths = shapes.prod(axis=1), shapes[:, 1]
    flat = np.split(state["inducing"], np.cumsum(counts)[:-1])
    shifts = np.split(state["shift"], np.cumsum(widths)[:-1])
    ranges = np.split(state["inverse_range"], np.cumsum(widths)[:-1])
    targets = Targets.of(frame.targets, frame.hull.mean.shape[1])
    layers: list[MappingLayer] = []
    kernel = None
    for depth in range(n_layers):
        x = _encodings(frame, depth, layers, kernel)
        inputs = Inputs(shifts[depth], ranges[depth], flat[depth].reshape(shapes[depth]))
        ridge, tau, seen = (float(number) for number in state["lambdas"][depth])
        mapping, kernel = solve_mapping(inputs, x, targets, ridge, tau, seen)
        layers.append(_layer(frame, depth, mapping))
    return LayeredStack(frame.hull, tuple(layers))
