"""Ridge regression, discriminant analysis and cross-validation from the rows, one at a time."""

import numpy as np


def ridge_scores(X, y, n_classes, ridge, queries):
    """Ridge regression on one-hot labels with an intercept; the ridge is in units of the mean variance."""
    mean, targets = X.mean(axis=0), np.eye(n_classes)[y]
    covariance = (X - mean).T @ (X - mean) / len(X)
    unit = np.trace(covariance) / X.shape[1]
    moments = (X - mean).T @ (targets - targets.mean(axis=0)) / len(X)
    weights = np.linalg.solve(covariance + ridge * unit * np.eye(X.shape[1]), moments)
    return (queries - mean) @ weights + targets.mean(axis=0)


def lda_scores(X, y, n_classes, ridge, queries):
    """Discriminant analysis; the ridge is added to the covariance within classes."""
    means = np.array([X[y == c].mean(axis=0) for c in range(n_classes)])
    shares = np.bincount(y, minlength=n_classes) / len(y)
    unit = np.trace(np.atleast_2d(np.cov(X.T, bias=True))) / X.shape[1]
    within = (X - means[y]).T @ (X - means[y]) / len(X) + ridge * unit * np.eye(X.shape[1])
    centred = means - X.mean(axis=0)
    weights = np.linalg.solve(within, centred.T)
    return (queries - X.mean(axis=0)) @ weights - np.sum(centred.T * weights, axis=0) / 2 + np.log(shares)


def left_out_ridge(X, y, n_classes, ridge_of_all):
    """Scores of each row by a ridge of the same absolute size that was fitted without it."""
    found = np.empty((len(X), n_classes))
    targets = np.eye(n_classes)[y]
    unit = np.trace(np.atleast_2d(np.cov(X.T, bias=True))) / X.shape[1]
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        # Rows weigh 1 / N as in the fit of all rows, so that the penalty is the same.
        ones = np.column_stack([np.ones(rest.sum()), X[rest]])
        penalty = np.diag([0.0] + [ridge_of_all * unit * len(X)] * X.shape[1])
        found[i] = np.append(1.0, X[i]) @ np.linalg.solve(ones.T @ ones + penalty, ones.T @ targets[rest])
    return found
