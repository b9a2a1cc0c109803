"""Regression on sums of pairs with noise: every number by quadrature or by whole matrices, share by share."""

import math

import numpy as np
from scipy.integrate import quad
from scipy.stats import multivariate_normal

from reference.denoised import without_noise

SHARES = [0.05 * step for step in range(20)] + [0.99]  # with the prior weights share (1 - share)^2


def cut_off_mean(value, deviation, low, high):
    """Mean of a normal law between two ends, by integrals over what is not negligible."""
    nearest = min(max(value, low), high)
    first, last = max(low, nearest - 12 * deviation), min(high, nearest + 12 * deviation)

    def density(x):
        return math.exp(-(((x - value) ** 2) - (nearest - value) ** 2) / (2 * deviation**2))

    # The part left and right of the largest density, each by itself.
    ends = [(first, nearest), (nearest, last)]
    mass = sum(quad(density, *end, epsabs=0, limit=200)[0] for end in ends)
    return sum(quad(lambda x: x * density(x), *end, epsabs=0, limit=200)[0] for end in ends) / mass


def regression(count, sums, products, levels, row_square, output_square, doubt=1.0, middle=1 / 12):
    """Return weights, offset and estimated error on other pairs."""
    count_noise, sum_noise, product_noise = levels
    p = len(sums) - 1
    n = max(cut_off_mean(count, count_noise, 0.0, np.inf), 1.0)
    mean_x, mean_y = sums[:-1] / n, sums[-1] / n
    # The mean of x by James and Stein; that of y has the prior variance of a share of its largest square.
    mean_x = mean_x * max(0.0, 1 - p * (sum_noise / n) ** 2 / sum(mean_x**2))
    own = (sum_noise / n) ** 2 + (mean_y * count_noise / n) ** 2
    mean_y = mean_y / (1 + own / (middle * output_square))
    v = cut_off_mean(products[-1, -1] / n - mean_y**2, product_noise / n, 0.0, output_square)
    # The covariance of x: its trace, what spreads its eigenvalues, and how much of that is believed.
    S = products[:-1, :-1] / n - np.outer(mean_x, mean_x)
    sigma = math.sqrt((product_noise / n) ** 2 + 4 * (sum_noise / n) ** 2 * sum(mean_x**2) / p)
    trace = cut_off_mean(np.trace(S), sigma * math.sqrt(p), 0.0, row_square)
    values, U = np.linalg.eigh(S)
    spread = sum((value - sum(values) / p) ** 2 for value in values)
    expected = sigma**2 * p * (p + 1) / 2  # p squares on the diagonal, p (p - 1) of half the size beside it
    deviation = expected * 2 / math.sqrt(p * (p + 1))
    z = max(0.0, (spread - expected) / deviation)
    d = [
        trace / p + z**2 / (z**2 + doubt) * (value - trace / p)
        for value in without_noise(list(values), sigma, trace)
    ]
    wrong = min(max(0.0, spread - expected - sum((value - trace / p) ** 2 for value in d)), expected)
    S = U @ np.diag(d) @ U.T
    # Products of x and y, seen from the means, and the variances of the noise in them.
    c = products[:-1, -1] - mean_x * sums[-1]
    turned = U.T @ mean_x
    of_noise = U @ np.diag(product_noise**2 / 2 + sum_noise**2 * (mean_y**2 + turned**2)) @ U.T
    mixture, kept = [], []
    for share in SHARES:
        tau = share * v / trace
        law = n * S @ (tau * np.eye(p)) @ (n * S).T  # of the weights
        law = law + of_noise + (1 - share) * v * n * S + tau * n**2 * wrong / p * np.eye(p)
        prior = (0.05 if share == 0 else share) * (1 - share) ** 2
        mixture.append(multivariate_normal.logpdf(c, np.zeros(p), law) + math.log(prior))
        kept.append(tau * n * S @ np.linalg.inv(law))
    odds = [math.exp(each - max(mixture)) for each in mixture]
    K = sum(weight * matrix for weight, matrix in zip(odds, kept, strict=True)) / sum(odds)
    w = K @ c
    # Stein's lemma: noise e in c makes the residuals too small by 2 E[w'e] = 2 tr(K cov(e)).
    residual = products[-1, -1] - n * mean_y**2 - 2 * w @ c + n * w @ S @ w + 2 * np.trace(K @ of_noise)
    freedom = min((1 + np.trace(K @ (n * S))) / n, 0.5)
    return w, mean_y - mean_x @ w, residual / n / (1 - freedom) ** 2
