"""
How much noise each K selects
=============================

The outcome is a coin toss and no column has anything to do with it: whatever is selected is false. With a level α,
about α·p of p columns pass a first test. How many are selected depends on how often they are looked at again.
"""

import math

import matplotlib.pyplot as plt
import numpy as np

import fbed

# %%
# Twenty tables of 200 rows and 100 columns, selected by four algorithms at three levels. ``fbed.path`` runs all twelve
# settings on a table together and shares what it learns.

ALPHAS = (0.01, 0.05, 0.1)
rng = np.random.default_rng(1)
selected = {}
for _ in range(20):
    X, y = rng.normal(size=(200, 100)), rng.integers(0, 2, 200)
    for row in fbed.path(X, y, alphas=ALPHAS, gammas=(), ks=(0, 1, math.inf)).rows():
        selected.setdefault(row["algorithm"], {a: [] for a in ALPHAS})[row["alpha"]].append(row["n_selected"])

# %%
# FBED^0 stays below α·p, FBED^1 close to it. FBED^∞ and FBS, which look at every column again and again, select more.
# The paper has the same table for 100 simulations.

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
colours = {"FBED^0": "#0072B2", "FBED^1": "#009E73", "FBED^∞": "#E69F00", "FBS": "#CC79A7"}
for i, (algorithm, found) in enumerate(selected.items()):
    means = [np.mean(found[alpha]) for alpha in ALPHAS]
    axes.bar(np.arange(3) + 0.2 * i, means, 0.18, label=algorithm, color=colours[algorithm])
for j, alpha in enumerate(ALPHAS):
    axes.hlines(100 * alpha, j - 0.15, j + 0.75, color="black", linestyle=":", label="α·p" if j == 0 else None)
axes.set(xticks=np.arange(3) + 0.3, xticklabels=[f"α = {alpha}" for alpha in ALPHAS], ylabel="variables selected")
axes.legend(frameon=False)
plt.show()
