"""
Machines in the plane (document 000, Fig. 1-4, 8 and 10)
========================================================

What a kernel affine hull machine does to points: it moves them to images near its samples. Drawn anew with
generated points; the figures of the document show other points of the same kind.
"""

import numpy as np
from matplotlib.figure import Figure

from experiments.pictures import FieldDisplay, PointsDisplay
from onefold import KAHM, AutoencoderClassifier, WideKAHM
from onefold.fabrication import Fabricator
from onefold.privacy import Box, OptimalNoise

rng = np.random.default_rng(0)


def ring(n, radius=1.0, noise=0.05, centre=(0.0, 0.0)):
    """Points around a circle."""
    angle = rng.uniform(0, 2 * np.pi, n)
    return centre + np.column_stack([np.cos(angle), np.sin(angle)]) * radius + rng.normal(0, noise, (n, 2))


def wave(n, noise=0.05):
    """Points along a sine."""
    x = rng.uniform(-1.5, 1.5, n)
    return np.column_stack([x, 0.7 * np.sin(3 * x)]) + rng.normal(0, noise, (n, 2))


def around(samples, n=3000):
    """Points all over the place, to see where a machine puts them."""
    low, high = samples.min(axis=0) - 0.5, samples.max(axis=0) + 0.5
    return rng.uniform(low, high, (n, samples.shape[1]))


# %%
# **Fig. 4: samples in the plane and the image of the machine.** Three thousand points from all over the
# plane are mapped; they land in a bounded region around the samples.
clouds = {
    "a ring": ring(200),
    "a wave": wave(200),
    "two heaps": np.vstack([ring(90, 0.3, 0.1, (c, 0)) for c in (-1, 1)]),
}
figure = Figure(figsize=(9, 3.2), layout="constrained")
for axes, (name, samples) in zip(figure.subplots(1, 3), clouds.items(), strict=True):
    machine = KAHM(n_components=2, scale="auto").fit(samples)
    display = PointsDisplay.from_rows({"images": machine.transform(around(samples)), "samples": samples})
    display.plot(axes)
    axes.set_title(name, fontsize=9)
words = "Three sets of samples, and the regions that their machines map everything to."

# %%
# **Fig. 2: the same in three dimensions**, seen from the side. A spiral and a sphere, each by a wide
# machine: branches of thirty samples have machines of their own, the nearest image counts, and the images
# follow the samples more closely than those of one machine would.
spiral = rng.uniform(0, 4 * np.pi, 300)
angle, height = rng.uniform(0, 2 * np.pi, 300), rng.uniform(-1, 1, 300)
flat = np.sqrt(1 - height**2)
solids = {
    "a spiral": np.column_stack([np.cos(spiral), np.sin(spiral), spiral / 6 - 1]),
    "a sphere": np.column_stack([flat * np.cos(angle), flat * np.sin(angle), height]),
}
side = np.array([[1.0, 0.0], [0.5, 0.35], [0.0, 1.0]])  # an oblique view
figure = Figure(figsize=(8, 3.6), layout="constrained")
for axes, (name, samples) in zip(figure.subplots(1, 2), solids.items(), strict=True):
    machine = WideKAHM(n_components=3, n_layers=3, branch_size=30, scale="auto", random_state=0).fit(samples)
    images = machine.transform(around(samples, 1500))
    PointsDisplay.from_rows({"images": images @ side, "samples": samples @ side}).plot(axes)
    axes.set_title(name, fontsize=9)
words = "A spiral and a sphere in three dimensions, and the images of points around them."

# %%
# **Fig. 1: from samples to private rows.** Noise for a promise of epsilon 24 *per entry* scatters the
# samples; smoothing brings the noisy rows back to a shape, and never looks at the raw ones.
samples = ring(400, noise=0.02)
noise = OptimalNoise(24.0, 1e-5, Box([-1.2, -1.2], [1.2, 1.2]))
noisy = noise.randomise(samples)
smoothed = Fabricator(noise, n_components=2).fabricate(samples)
figure = Figure(figsize=(9, 3.2), layout="constrained")
groups = {"samples": samples, "with noise": noisy, "fabricated": smoothed}
for axes, (name, rows) in zip(figure.subplots(1, 3, sharex=True, sharey=True), groups.items(), strict=True):
    PointsDisplay.from_rows({name: rows}).plot(axes)
words = "A ring of samples, the same with noise, and the fabricated rows, which are nearer to a ring again."

# %%
# **Fig. 8: a classifier of three classes.** One map for each class: how far every point of the plane is
# from it. The smallest decides.
classes = {
    "ring": ring(150),
    "wave": wave(150) + np.array([0, 2.2]),
    "heap": rng.normal((2.5, 0.5), 0.25, (150, 2)),
}
X, y = np.vstack(list(classes.values())), np.repeat(list(classes), 150)
model = AutoencoderClassifier(WideKAHM(n_components=2, scale="auto"), preparation=None).fit(X, y)
figure = Figure(figsize=(9, 6.4), layout="constrained")
places = figure.subplots(2, 2).ravel()
for place, (axes, name) in enumerate(zip(places[:3], model.classes_, strict=True)):
    display = FieldDisplay.from_function(
        lambda rows, place=place: model.distances(rows)[:, place],
        {name: classes[name]},
        60,
        f"distance from {name}",
    )
    display.plot(axes)
display = FieldDisplay.from_function(
    lambda rows: model.distances(rows).argmin(axis=1), classes, 120, "smallest distance", list(model.classes_)
)
display.plot(places[3])
words = "Distances from three classes all over the plane, and the regions in which each is the smallest."

# %%
# **Fig. 3: the same from private rows.** Epsilon is 16 per entry here, 32 per record of two entries: enough
# to draw it, and no promise worth making.
noise = OptimalNoise(16.0, 1e-5, Box([-2, -2], [4, 4]))
rows, labels = Fabricator(noise, n_components=2).fabricate(X, y), y  # labels are not covered
private = AutoencoderClassifier(WideKAHM(n_components=2, scale="auto"), preparation=None).fit(rows, labels)
made = {name: rows[labels == name] for name in classes}
figure = Figure(figsize=(9, 3.6), layout="constrained")
places = figure.subplots(1, 2)
PointsDisplay.from_rows(made).plot(places[0])
FieldDisplay.from_function(
    lambda at: private.distances(at).argmin(axis=1), classes, 120, "smallest distance", list(private.classes_)
).plot(places[1])
words = "Fabricated rows of three classes, and the regions of the classifier that was fitted to them."

# %%
# **Fig. 10: several machines make one.** Two sites have a part of the ring each. The smaller of their
# distances is the distance of both together: the whole of the ring, though nobody has it.
left, right = samples[samples[:, 0] < 0], samples[samples[:, 0] >= 0]
machines = [KAHM(2, scale="auto").fit(part) for part in (left, right)]
figure = Figure(figsize=(10, 3.2), layout="constrained")
asked = {
    "site 1": lambda rows: machines[0].distance(rows),
    "site 2": lambda rows: machines[1].distance(rows),
    "both": lambda rows: np.minimum(machines[0].distance(rows), machines[1].distance(rows)),
}
parts = {"site 1": left, "site 2": right}
for axes, (name, distance) in zip(figure.subplots(1, 3), asked.items(), strict=True):
    FieldDisplay.from_function(distance, parts, 60).plot(axes)
    axes.set_title(f"distance from {name}", fontsize=9)
words = (
    "Distances of two sites with half a ring each, and their minimum, which is small around the whole ring."
)
