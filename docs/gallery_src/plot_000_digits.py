"""
Digits (document 000, Fig. 6, 9, 13 and 15)
===========================================

The document uses MNIST and photographs of groceries. These are the 8 x 8 digits that scikit-learn brings
along: smaller, and good enough to see the same.
"""

import numpy as np
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from onefold import AutoencoderClassifier, DeepKAHM, WideKAHM
from onefold.audit import audit_membership
from onefold.fabrication import Fabricator
from onefold.privacy import Box, OptimalNoise
from onefold.report import FoldingDisplay, ImagesDisplay

X, y = load_digits(return_X_y=True)
X = X / 16
eights = X[y == 8]

# %%
# **Fig. 6: layers.** Three eights that the machine has not seen, and what each layer makes of them. Each
# layer folds what the one before returned, so single features fade and what all eights have in common
# stays. The last column is the layer whose image is nearest.
deep = DeepKAHM(n_components=20, n_layers=10, scale="auto").fit(eights[:150])
asked = eights[150:153]
layers = deep.layers(asked)
rows = {
    f"digit {i + 1}": [asked[i], *(layer[i] for layer in layers), deep.transform(asked)[i]] for i in range(3)
}
display = ImagesDisplay.from_rows(rows, ["digit", *(str(n + 1) for n in range(len(layers))), "best"])
figure, words = display.plot().figure_, display.describe()

# %%
# **Fig. 9: fabricated digits** for several epsilons *per entry* and two numbers of components. The smaller
# epsilon or the number of components, the less is left of the single digit. Per record of 64 entries
# epsilon is 64 times as large.
shown = eights[:8]
rows = {"raw": shown}
for epsilon in (64.0, 16.0, 4.0):
    for n in (20, 5):
        noise = OptimalNoise(epsilon, 1e-5, Box(0, 1))
        rows[f"epsilon {epsilon:g}, n {n}"] = Fabricator(noise, n_components=n).fabricate(eights)[:8]
display = ImagesDisplay.from_rows(rows)
figure, words = display.plot().figure_, display.describe()

# %%
# **Fig. 13 and 15: what an attacker sees.** Distances of rows the classifier was fitted to, and of rows it
# has not seen. Where they differ, members can be told. Behind fabricated rows, on the right, they differ
# less; at this epsilon, 16 per entry, they still do.
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
noise = OptimalNoise(16.0, 1e-5, Box(0, 1))
private = Fabricator(noise, n_components=20).fabricate(X_train, y_train)
figure = Figure(figsize=(9, 3.4), layout="constrained")
told = []
for axes, (name, rows) in zip(
    figure.subplots(1, 2), {"raw rows": X_train, "fabricated rows": private}.items(), strict=True
):
    model = AutoencoderClassifier(WideKAHM(20, 5)).fit(rows, y_train)
    audit = audit_membership(model, X_train, X_test)
    members, others = (np.asarray(part) for part in audit.distances)
    FoldingDisplay.from_distances({"members": members, "others": others}).plot(axes)
    axes.set_title(f"{name}: area under the attacker's curve {audit.attack.auc:.2f}", fontsize=9)
    told.append(f"{name} {audit.attack.auc:.2f}")
words = f"Histograms of distances of members and others. Area under the attacker's curve: {', '.join(told)}."
