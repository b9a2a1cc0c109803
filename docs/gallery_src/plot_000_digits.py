"""
Digits and groceries (document 000, Fig. 6, 9, 13 and 15)
=========================================================

What layers keep of a digit, what is left of fabricated digits, and what an attacker sees of either.
"""

from gallery_data import digits, groceries, ones_of
from matplotlib.figure import Figure

from experiments.pictures import ImagesDisplay
from onefold import AutoencoderClassifier, DeepKAHM, WideKAHM
from onefold.audit import audit_membership
from onefold.fabrication import Fabricator
from onefold.privacy import Box, OptimalNoise
from onefold.report import FoldingDisplay

# %%
# **Fig. 6: layers.** Three eights that the machine has not seen, and what each layer makes of them. Each
# layer folds what the one before returned, so single features fade and what all eights have in common
# stays. The last column is the layer whose image is nearest.
eights, said = ones_of(8)
print(said)
known, asked = eights[:-3], eights[-3:]
deep = DeepKAHM(n_components=20, n_layers=10, scale="auto").fit(known)
layers = deep.layers(asked)
rows = {
    f"digit {i + 1}": [asked[i], *(layer[i] for layer in layers), deep.transform(asked)[i]] for i in range(3)
}
display = ImagesDisplay.from_rows(rows, ["digit", *(str(n + 1) for n in range(len(layers))), "best"])
figure, words = display.plot().figure_, display.describe()

# %%
# **Fig. 9: fabricated digits** for several epsilons *per entry* and two numbers of components. The smaller
# epsilon or the number of components, the less is left of the single digit. Per record epsilon is as many
# times as large as a digit has pixels.
rows = {"raw": eights[:8]}
for epsilon in (64.0, 16.0, 4.0):
    for n in (20, 5):
        noise = OptimalNoise(epsilon, 1e-5, Box(0, 1))
        rows[f"epsilon {epsilon:g}, n {n}"] = Fabricator(noise, n_components=n).fabricate(eights)[:8]
display = ImagesDisplay.from_rows(rows)
figure, words = display.plot().figure_, display.describe()


# %%
# **Fig. 13: what an attacker sees, digits.** Distances of rows the classifier was fitted to, and of rows it
# has not seen. Where they differ, members can be told. Behind fabricated rows, on the right, they differ
# less; epsilon is 16 per entry here.
def attacked(data, epsilon):
    """Distances of members and of others: raw rows on the left, fabricated rows on the right."""
    noise = OptimalNoise(epsilon, 1e-5, Box(0, 1))
    private = Fabricator(noise, n_components=20).fabricate(data.X_train, data.y_train)
    drawn, told = Figure(figsize=(9, 3.4), layout="constrained"), []
    versions = {"raw rows": data.X_train, "fabricated rows": private}
    for axes, (name, rows) in zip(drawn.subplots(1, 2), versions.items(), strict=True):
        model = AutoencoderClassifier(WideKAHM(20, 5)).fit(rows, data.y_train)
        audit = audit_membership(model, data.X_train, data.X_test)
        near = "distance to the nearest class"
        (members, others), area = audit.answers[near], audit.attacks[near].auc
        FoldingDisplay.from_distances({"members": members, "others": others}).plot(axes)
        axes.set_title(f"{name}: area under the attacker's curve {area:.2f}", fontsize=9)
        told.append(f"{name} {area:.2f}")
    return drawn, f"Distances of members and others. Area under the attacker's curve: {', '.join(told)}."


numbers = digits()
print(numbers.said)
figure, words = attacked(numbers, 16.0)

# %%
# **Fig. 15: what an attacker sees, groceries.** The same for photographs of groceries. They are few and of
# many features, so raw rows give themselves away more than digits do; again fabricated rows hide them
# better.
shop = groceries()
print(shop.said)
figure, words = attacked(shop, 16.0)
