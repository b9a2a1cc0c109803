"""Sources of every kind, for the tests of what they hold and how they travel."""

from onefold.fabrication import Fabricator
from onefold.privacy import AnalyticGaussian, Box, Laplace, OptimalNoise, PrivateMoments
from onefold.transfer import PrivateSource
from reference.domains import blobs


def moments(epsilon=8.0):
    return PrivateMoments(epsilon, classes=[0, 1, 2], radius=3.0)


def made(kind, rng, n_rows=300):
    X, y = blobs(rng, n_rows)
    mechanism = {
        "noise": OptimalNoise(8.0, sensitivity=1.0),
        "record": AnalyticGaussian(8.0, 1e-5, sensitivity=Box(-2.0, 2.0, 6), unit="record"),
        "fabricated": Fabricator(Laplace(8.0, sensitivity=1.0), n_components=4, stopping=1),
        "moments": moments(),
        "none": None,
    }[kind]
    return PrivateSource.fit(X, y, mechanism, random_state=3), X, y


KINDS = ("noise", "record", "fabricated", "moments", "none")
