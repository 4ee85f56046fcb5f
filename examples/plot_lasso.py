"""
FBED and the lasso on correlated columns
========================================

The lasso keeps what helps to predict, and of correlated columns often several. FBED asks whether a column adds
something to those that are selected. With the same data they answer different questions.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LassoCV
from sklearn.metrics import r2_score

import fbed

# %%
# 40 columns in 8 blocks of 5. Within a block the correlation is 0.8. One column of each of four blocks matters.

TRUE = [0, 5, 10, 15]


def draw(n, rng):
    """Rows of the table and the outcome."""
    shared = np.repeat(rng.normal(size=(n, 8)), 5, axis=1)
    X = np.sqrt(0.8) * shared + np.sqrt(0.2) * rng.normal(size=(n, 40))
    return X, X[:, TRUE] @ [1.0, -1.0, 0.7, -0.7] + 1.5 * rng.normal(size=n)


rng = np.random.default_rng(2)
rows = []
for _ in range(20):
    (X, y), (X_new, y_new) = draw(200, rng), draw(1000, rng)
    for name in ("FBED^1, EBIC", "lasso, cross-validated"):
        if name.startswith("FBED"):
            result = fbed.select(X, y, criterion="ebic")
            chosen = result.indices
            prediction = result.model.coefficients[0] + X_new[:, chosen] @ result.model.coefficients[1:]
        else:
            lasso = LassoCV(cv=5).fit(X, y)
            chosen, prediction = np.flatnonzero(lasso.coef_), lasso.predict(X_new)
        true = len(set(chosen) & set(TRUE))
        rows.append((name, true, len(chosen) - true, r2_score(y_new, prediction)))

# %%
# Both predict about equally well. FBED needs a third of the columns, and what it selects is mostly what matters; in
# exchange it now and then takes a neighbour for the true column.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained")
for name, colour in (("FBED^1, EBIC", "#0072B2"), ("lasso, cross-validated", "#E69F00")):
    for axis, values in zip(axes, zip(*[row[1:] for row in rows if row[0] == name], strict=True), strict=True):
        jitter = rng.uniform(-0.12, 0.12, len(values))
        axis.scatter(jitter + (name[0] == "l"), values, color=colour, alpha=0.7)
        axis.hlines(np.mean(values), -0.3 + (name[0] == "l"), 0.3 + (name[0] == "l"), color="black")
        axis.set(xticks=[0, 1], xticklabels=["FBED", "lasso"])
for axis, title in zip(axes, ("true columns, of 4", "other columns", "R² on new rows"), strict=True):
    axis.set_title(title)
plt.show()
for name in ("FBED^1, EBIC", "lasso, cross-validated"):
    true, other, r2 = np.mean([row[1:] for row in rows if row[0] == name], axis=0)
    print(f"{name:24s} true {true:.1f} of 4, others {other:.1f}, R² {r2:.2f}")
