"""
Space folding (document 004, Fig. 2 and 3)
==========================================

A machine folds space onto its samples. The measure says how strongly, between 0 and 1: it joins the
distance between a point and its image and the angle between them.
"""

import numpy as np
from matplotlib.figure import Figure

from experiments.pictures import FieldDisplay, PointsDisplay
from onefold import KAHM

rng = np.random.default_rng(0)
angle = rng.uniform(0.2, 1.3, 150) * np.pi
samples = np.column_stack([2 + np.cos(angle), 1.5 + np.sin(angle)]) + rng.normal(0, 0.06, (150, 2))
machine = KAHM(2, scale="auto").fit(samples)

# %%
# **Fig. 2: the fold.** On the left every point of a grid is joined with its image by a line; on the right
# the measure. Both are small along the samples.
x, y = np.meshgrid(np.linspace(0, 4, 17), np.linspace(-0.5, 3.5, 17))
grid = np.column_stack([x.ravel(), y.ravel()])
images = machine.transform(grid)
figure = Figure(figsize=(9, 4), layout="constrained")
left, right = figure.subplots(1, 2)
left.plot(*np.stack([grid, images]).transpose(2, 0, 1), color="#a9b4c2", linewidth=0.7)
PointsDisplay.from_rows({"samples": samples, "images of a grid": images}).plot(left)
display = FieldDisplay.from_function(machine.folding, {"samples": samples}, 80, "space folding measure")
display.plot(right)
words = display.describe()

# %%
# **Fig. 3: three sites.** Each site's measure is small where its own samples are. The minimum of all three
# is the measure of the samples together, and nobody had to show them.
parts = np.array_split(samples[np.argsort(angle)], 3)
groups = {f"site {i + 1}": part for i, part in enumerate(parts)}
machines = [KAHM(2, scale="auto").fit(part) for part in parts]
figure = Figure(figsize=(9, 7), layout="constrained")
for i, axes in enumerate(figure.subplots(2, 2).ravel()):
    chosen = machines if i == 3 else [machines[i]]
    display = FieldDisplay.from_function(
        lambda rows, chosen=chosen: np.min([each.folding(rows) for each in chosen], axis=0),
        groups,
        60,
        "folding",
    )
    display.plot(axes)
    axes.set_title("all sites: the minimum" if i == 3 else f"site {i + 1}", fontsize=9)
words = display.describe()
