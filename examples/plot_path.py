"""
Which variables hang on the level
=================================

A level is a choice. ``fbed.path`` selects at many levels for little more than the price of one, and shows which
variables are there whatever one chooses.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import fbed

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
alphas = np.geomspace(1e-6, 0.1, 16)
grid = fbed.path(X, y, alphas=alphas, gammas=(), ks=(1,), fbs=False)
print(f"{len(grid)} selections in {grid.seconds:.2f} s")

# %%
# A square is a selected variable, dark where it entered early. Variables that reach far to the left are those that the
# data insist on. Note that the sets are not nested: with a more generous level, one variable may take the place of
# another.

names = list(dict.fromkeys(name for result in grid for name in result.selected))
order = np.full((len(names), len(alphas)), np.nan)
for j, result in enumerate(grid):
    for position, name in enumerate(result.selected):
        order[names.index(name), j] = position + 1

figure, axes = plt.subplots(figsize=(8, 5), layout="constrained")
image = axes.pcolormesh(alphas, np.arange(len(names)), order, cmap="viridis", shading="nearest", edgecolors="white")
axes.set(xscale="log", xlabel="level α", yticks=range(len(names)), yticklabels=names)
axes.invert_yaxis()
figure.colorbar(image, label="entered as number")
plt.show()
