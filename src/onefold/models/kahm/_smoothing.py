"""What the machine of some samples makes of those samples: smoothing them, and leaving each of them out.

With K the kernel between the samples, H = K (K + lambda I)^-1 smooths them: row i of H Y over the sum of row
i of H is the image of sample i under its own machine (000 Def. 13, 004 Def. 6).

Leaving sample i out needs no second fit. With the encoding and lambda kept, the ridge regression without row
i answers at sample i ((H Y)_i - H_ii y_i) / (1 - H_ii), for the samples as for the sum of memberships. Their
ratio is the image of sample i under the machine of the others,

    sum over j != i of H_ij y_j / sum over j != i of H_ij,

so that the distance from it is the distance from the image under the machine itself times s_i / (s_i - H_ii),
s = H 1.
"""

from dataclasses import dataclass, replace

import numpy as np

from onefold._base.arrays import Array, Floats
from onefold.models.hull import build_hull, centre
from onefold.models.kahm._core import (
    KernelRidge,
    MachineStack,
    Target,
    regression_target,
    resolvable,
    sample_kernel,
    solve,
    solve_cholesky,
)

# --- leaving samples out -------------------------------------------------------------------------------


FEWEST_ROWS = 5  # of a machine that samples are left out of: what four of them say of a fifth is chance
# Below this the kernel values of a sample with all others say which is nearest, but not how much they weigh.
ALONE = 1e-100


def leave_one_out(stack: MachineStack) -> Floats:
    """Squared distances of samples from their images under the first layer of the others, in one row.

    There are none of machines of fewer than five. Callers hold BLAS to one thread.
    """
    hull = stack.hull
    n_samples = hull.points.shape[1]
    if n_samples < FEWEST_ROWS:
        return np.empty(0)
    points = hull.points.astype(np.float64)
    encoded = points @ hull.encoder.astype(np.float64)
    kernel = sample_kernel(encoded, hull.n_encoded)
    lam = resolvable(stack.layers[0].lambdas[:, 1], n_samples, np.dtype(np.float64))
    values, vectors = np.linalg.eigh(kernel)
    values = np.maximum(values, 0.0)
    inverse = 1.0 / (values + lam[:, None])
    smoother = (vectors * (values * inverse)[:, None, :]) @ vectors.transpose(0, 2, 1)
    rest = lam[:, None] * np.einsum("sij,sj->si", vectors**2, inverse)  # 1 - H_ii
    diagonal = np.arange(n_samples)
    smoother[:, diagonal, diagonal] = kernel[:, diagonal, diagonal] = 0.0
    for machine, row in np.argwhere(kernel.max(axis=2) < ALONE):
        # Far from all others: the ridge without this sample has the inverse of the one with it. As for any
        # query, a common factor of the kernel values is free.
        exponents = _exponents(encoded[machine], int(row), int(hull.n_encoded[machine]))
        kernel[machine, row] = np.exp(exponents - exponents.max())
        turned = (vectors[machine].T @ kernel[machine, row]) * inverse[machine]
        smoother[machine, row], rest[machine, row] = vectors[machine] @ turned, 1.0
        smoother[machine, row, row] = 0.0
    sums = smoother.sum(axis=2)
    # The same guard as for any query: a denominator below the bound of 000 eq. 147 sends the sample far.
    bound = np.einsum("sij,sij->si", kernel, kernel) / kernel.max(axis=2) / (lam + n_samples - 1)[:, None]
    safe = sums >= bound * rest
    images = (smoother @ points) / np.where(safe, sums, 1.0)[:, :, None]
    for machine, row in np.argwhere(~safe):
        others = points[machine] - points[machine, row]
        images[machine, row] = points[machine, np.argmax(np.einsum("nr,nr->n", others, others))]
    apart = points - images
    return np.asarray(np.einsum("snr,snr->sn", apart, apart).ravel())


def _exponents(encoded: Floats, row: int, n_used: int) -> Floats:
    """Logarithms of the kernel values of one sample with the others, and of nothing with itself."""
    apart = encoded[:, :n_used] - encoded[row, :n_used]
    exponents = np.einsum("nc,nc->n", apart, apart) / (-2.0 * max(n_used, 1))
    exponents[row] = -np.inf
    return np.asarray(exponents)


# --- smoothing the samples by their own machine --------------------------------------------------------


# Lambda of the solution, relative to lambda*: further away is solved once more.
CLOSE_ENOUGH = {np.dtype(np.float64): 1e-9, np.dtype(np.float32): 1e-4}


@dataclass(frozen=True)
class Smoothing:
    """Result of one smoothing step.

    Parameters
    ----------
    smoothed : ndarray of shape (N, p)
        The smoothed samples H Y.
    images : ndarray of shape (N, p)
        Image of every sample under the machine of the samples.
    relative : float
        Lambda* over tau. A step on similar samples may start from it.
    slope : float
        Slope of R at lambda*. A step on similar samples may start from it.

    See Also
    --------
    smooth : Makes it.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.models.kahm import smooth
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> smooth(X, n_components=2).smoothed.shape
    (30, 4)
    """

    smoothed: Array  # (N, p) H Y
    images: Array  # (N, p) the image of every sample under the machine of the samples
    relative: float  # lambda* over tau, and the slope there: where a step on similar samples may start
    slope: float


def smooth(
    samples: Array,
    n_components: int,
    factor: float = 1.0,
    n_features: int | None = None,
    near: Smoothing | None = None,
) -> Smoothing:
    """Apply the kernel smoother to the samples of a machine once.

    H = (K + lambda I)^-1 K is symmetric with eigenvalues in [0, 1), and H Y holds the samples mapped by their
    own machine before the division by the sum of memberships: the images are the rows of H Y over those of H
    1. Only distances between rows matter, and the number of features: rows may be given by their coordinates
    in any orthonormal basis, together with ``n_features``. The last digits depend on the number of BLAS
    threads, which the caller sets.

    Parameters
    ----------
    samples : ndarray of shape (N, p)
        The samples.
    n_components : int
        Dimension of the encoding.
    factor : float, default=1.0
        Factor by which the machine multiplies the samples.
    n_features : int or None, default=None
        Number of features of the data that the coordinates stand for; None if it is p.
    near : Smoothing or None, default=None
        Result for samples much like these, to start from.

    Returns
    -------
    Smoothing
        Smoothed samples and images.

    See Also
    --------
    KAHM : The machine.

    References
    ----------
    Document 000, Definition 13; document 004, Definition 6.

    Examples
    --------
    >>> import numpy as np
    >>> from onefold.models.kahm import smooth
    >>> X = np.random.default_rng(0).normal(size=(30, 4))
    >>> bool(smooth(X, n_components=2).smoothed.std() < X.std())
    True
    """
    n_samples, width = samples.shape
    n_features = width if n_features is None else n_features
    if width > n_samples:
        basis, coordinates = np.linalg.qr(samples.T)
        result = smooth(coordinates.T, n_components, factor, n_features, near)
        return replace(result, smoothed=result.smoothed @ basis.T, images=result.images @ basis.T)
    # Here the coordinates of the hull are the centred rows themselves.
    hull = build_hull(*centre(samples[None].copy()), n_components, factor)
    kernel = sample_kernel(hull.points @ hull.encoder, hull.n_encoded)
    target = regression_target(hull, factor)
    target = replace(target, n_features=n_features, mean_square=target.mean_square * (width / n_features))
    ridge = _ridge(kernel, target, near)
    inverse = ridge.solution[0].astype(np.float64)  # A^-1 [T, 1]
    used = float(ridge.effective[0])
    # H M = M - lambda (K + lambda I)^-1 M, where Y = T + 1 mean^T
    sums = 1.0 - used * inverse[:, -1]
    smoothed = hull.points[0] - used * inverse[:, :-1] + sums[:, None] * hull.mean[0]
    # The same guard as for any query: a denominator below the bound of 000 eq. 147 sends the sample far.
    safe = sums * (used + n_samples) >= np.einsum("ij,ij->i", kernel[0], kernel[0])
    images = smoothed / np.where(safe, sums, 1.0)[:, None]
    for row in np.flatnonzero(~safe):
        images[row] = samples[np.argmax(np.linalg.norm(samples - samples[row], axis=1))]
    dtype, tau = samples.dtype, 2.0 * float(target.mean_square[0])
    relative = float(ridge.regularisation[0]) / tau if tau > 0.0 else 1.0
    return Smoothing(smoothed.astype(dtype), images.astype(dtype), relative, ridge.slope)


def _ridge(kernel: Array, target: Target, near: Smoothing | None) -> KernelRidge:
    """Solution at lambda*, sought from where it was for similar samples."""
    previous = None
    if near is not None:
        guess = 2.0 * near.relative * target.mean_square
        previous = KernelRidge(guess, guess, guess, np.empty(0), near.slope)
    found = solve(kernel, target, previous, None)
    wanted, distance = found.regularisation, abs(found.solved - found.regularisation)
    if np.all(distance <= CLOSE_ENOUGH[target.points.dtype] * wanted):
        return found
    exact = solve_cholesky(kernel, target, known=np.stack([wanted, wanted], axis=1))
    return replace(exact, slope=found.slope)
