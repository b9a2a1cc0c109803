"""Conditionally deep membership-mapping autoencoders (001 Alg. 2, Def. 11) as stacks of one machine.

Mappings are fitted onto coordinates of the hull of the samples, so nothing has p columns after the
first product.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from onefold._base.arrays import Array, Index, Mask
from onefold.models._hull import Hull, build_hull, centre
from onefold.models._layers import LayeredStack
from onefold.models.membership._core import Inputs, Mapping, fit_mapping, solve_mapping

__all__ = ["MappingLayer", "MappingStack", "fit_stack", "rebuild_stack", "stack_state"]

# Ranges enter the kernel as ratios: no component is dropped because its range is small in absolute terms.
ANY_RANGE = 1e200


@dataclass(frozen=True)
class MappingLayer:
    """One membership-mapping autoencoder (001 Def. 2)."""

    mapping: Mapping
    axes: Array  # (r, n_l) hull coordinates to encodings: P^l of 001 Alg. 2

    @property
    def active(self) -> Mask:
        """Every machine has every layer."""
        return np.ones(1, dtype=bool)

    @property
    def width(self) -> int:
        """One kernel value per inducing point."""
        return len(self.mapping.inputs.inducing)

    def select(self, index: int | Index) -> "MappingLayer":
        """The layer itself: there is one machine."""
        return self

    def image(self, hull: Hull, points: Array, inside: Array) -> Array:
        """Coordinates of the images of points (001 eq. 60, 63), (1, r, M)."""
        kernel = self.mapping.inputs.kernel(points[0].T.astype(np.float64) @ self.axes)
        return np.asarray(self.mapping.weights.T @ kernel.T, dtype=points.dtype)[None]


MappingStack = LayeredStack[MappingLayer]


def fit_stack(samples: Array, n_components: int, n_layers: int, at_most: int, factor: float) -> MappingStack:
    """Fit one machine to samples (1, N, p), with at most so many inducing points, seen ``factor`` times."""
    hull = build_hull(*centre(samples), n_components, ANY_RANGE)
    targets = hull.points[0].astype(np.float64)
    layers: list[MappingLayer] = []
    guess = None
    for depth in range(n_layers):
        axes = _axes(hull, depth)
        # 001 eq. 61; outputs are never needed themselves, only what the next layer encodes of them.
        x = kernel @ (layers[-1].mapping.weights @ axes) if layers else targets @ axes
        mapping, kernel = fit_mapping(x, targets, at_most, hull.mean.shape[1], factor, guess)
        at_most = guess = len(mapping.inputs.inducing)  # 001 eq. 62
        layers.append(MappingLayer(mapping, axes))
    return LayeredStack(hull, tuple(layers))


def stack_state(stack: MappingStack) -> dict[str, NDArray[Any]]:
    """Samples, inducing points and regularisations: weights are solved for again when loading."""
    mappings = [layer.mapping for layer in stack.layers]
    parts = [mapping.inputs for mapping in mappings]
    return {
        "centred": stack.hull.centred,
        "mean": stack.hull.mean,
        "lambdas": np.array([[mapping.ridge, mapping.tau, mapping.variance] for mapping in mappings]),
        "shapes": np.array([part.inducing.shape for part in parts], dtype=np.int64),
        "inducing": np.concatenate([part.inducing.ravel() for part in parts]),
        "shift": np.concatenate([part.shift for part in parts]),
        "inverse_range": np.concatenate([part.inverse_range for part in parts]),
    }


def rebuild_stack(state: dict[str, NDArray[Any]], n_components: int, n_layers: int) -> MappingStack:
    """The machine that :func:`stack_state` described."""
    hull = build_hull(state["centred"], state["mean"], n_components, ANY_RANGE)
    shapes, n_samples = state["shapes"], hull.points.shape[1]
    if shapes.shape != (n_layers, 2) or len(hull.mean) != 1 or not ((shapes[:, 0] >= 1).all()):
        raise ValueError("the layers do not fit the parameters")
    if (shapes[:, 0] > n_samples).any():
        raise ValueError("there are more inducing points than samples")
    counts, widths = shapes.prod(axis=1), shapes[:, 1]
    flat = np.split(state["inducing"], np.cumsum(counts)[:-1])
    shifts = np.split(state["shift"], np.cumsum(widths)[:-1])
    ranges = np.split(state["inverse_range"], np.cumsum(widths)[:-1])
    targets = hull.points[0].astype(np.float64)
    layers: list[MappingLayer] = []
    for depth in range(n_layers):
        axes = _axes(hull, depth)
        inputs = Inputs(shifts[depth], ranges[depth], flat[depth].reshape(shapes[depth]))
        x = kernel @ (layers[-1].mapping.weights @ axes) if layers else targets @ axes
        ridge, tau, seen = (float(number) for number in state["lambdas"][depth])
        mapping, kernel = solve_mapping(inputs, x, targets, ridge, tau, seen)
        layers.append(MappingLayer(mapping, axes))
    return LayeredStack(hull, tuple(layers))


def _axes(hull: Hull, depth: int) -> Array:
    """The leading principal directions of a layer, of unit length: max(n - l + 1, 1) of them."""
    available = int(hull.n_encoded[0])
    axes = hull.encoder[0, :, : max(available - depth, min(available, 1))].astype(np.float64)
    lengths = np.sqrt(np.einsum("rk,rk->k", axes, axes))
    return np.asarray(axes / lengths)
