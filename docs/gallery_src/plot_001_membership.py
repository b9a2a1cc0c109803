"""
Membership mappings (document 001, Fig. 3-6)
============================================

Autoencoders of membership mappings, and what noise does to a digit.
"""

from gallery_data import ones_of

from experiments.pictures import ImagesDisplay
from onefold import DeepMembershipAutoencoder, WideMembershipAutoencoder
from onefold.privacy import Box, OptimalNoise

# %%
# **Fig. 3: layers.** Two nines that the model has not seen, and what each layer makes of them: the further
# the layer, the more it shows what all nines have in common.
nines, said = ones_of(9, 502)
print(said)
deep = DeepMembershipAutoencoder(n_components=20, n_layers=10).fit(nines[:-2])
asked = nines[-2:]
layers = deep.layers(asked)
rows = {f"digit {i + 1}": [asked[i], *(layer[i] for layer in layers)] for i in range(2)}
display = ImagesDisplay.from_rows(rows, ["digit", *(str(n + 1) for n in range(len(layers)))])
figure, words = display.plot().figure_, display.describe()

# %%
# **Fig. 4: fewer components.** The smaller n, the more abstract the eight: what is left is what eights have
# in common.
eights, said = ones_of(8, 501)
print(said)
known, asked = eights[:-1], eights[-1]
numbers = [20, 17, 15, 13, 11, 9, 7, 5, 3, 1]
images = [
    WideMembershipAutoencoder(n_components=n, n_layers=5).fit(known).transform([asked])[0] for n in numbers
]
display = ImagesDisplay.from_rows({"an eight": [asked, *images]}, ["digit", *(f"n {n}" for n in numbers)])
figure, words = display.plot().figure_, display.describe()

# %%
# **Fig. 5: fewer inducing points**, as a share of the samples. With fewer of them the image follows the
# single digit less.
shares = [0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.03, 0.02]
images = [
    WideMembershipAutoencoder(n_layers=5, inducing_ratio=r).fit(known).transform([asked])[0] for r in shares
]
display = ImagesDisplay.from_rows({"an eight": [asked, *images]}, ["digit", *(f"r {r:g}" for r in shares)])
figure, words = display.plot().figure_, display.describe()

# %%
# **Fig. 6: noise.** One digit with the noise of several epsilons *per entry*, delta 1e-5. An epsilon of 1
# per entry is as many times as large for a digit as it has pixels, and hides the digit from our eyes all
# the same.
epsilons = [64, 16, 8, 4, 2, 1]
noisy = [OptimalNoise(float(e), 1e-5, Box(0, 1)).randomise([asked])[0] for e in epsilons]
display = ImagesDisplay.from_rows({"with noise": [asked, *noisy]}, ["digit", *(f"eps {e}" for e in epsilons)])
figure, words = display.plot().figure_, display.describe()
