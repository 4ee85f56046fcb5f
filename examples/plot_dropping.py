"""
What early dropping saves
=========================

Every scan tests the candidates that remain. Forward-backward selection keeps all of them; early dropping keeps those
that still pass. Here both find the same nine of ten columns, and each adds two that are false.
"""

import matplotlib.pyplot as plt
import numpy as np

import fbed

# %%
# 1,000 rows and 1,000 columns. Ten of them matter, and 200 others are correlated with those ten.

rng = np.random.default_rng(0)
n, p = 1000, 1000
X = rng.normal(size=(n, p))
X[:, 10:210] += X[:, np.repeat(np.arange(10), 20)]
y = X[:, :10] @ np.linspace(1.0, 0.3, 10) + 2 * rng.normal(size=n)

found = {
    "FBED^1": fbed.select(X, y, alpha=0.001),
    "FBS": fbed.select(X, y, alpha=0.001, early_dropping=False),
}
for name, result in found.items():
    print(f"{name:7s} {result.n_tests.total:6,} tests, selected {sorted(result.selected)}")

# %%
# The height of a bar is the number of candidates that a scan tests, so that the area is the work. After the first scan
# of FBED^1 most of the noise is gone, and the second run, which looks at everything once more, is over after few scans.

figure, axes = plt.subplots(2, 1, figsize=(7, 5), sharex=True, sharey=True, layout="constrained")
for axis, (name, result) in zip(axes, found.items(), strict=True):
    rows = [row for row in result.trace if row.phase == "forward"]
    colours = ["#0072B2" if row.run == 0 else "#E69F00" for row in rows]
    axis.bar(np.arange(1, len(rows) + 1), [row.tested for row in rows], color=colours)
    axis.set(title=f"{name}: {result.n_tests.total:,} tests", ylabel="candidates tested")
axes[0].legend(
    handles=[plt.Rectangle((0, 0), 1, 1, color=c) for c in ("#0072B2", "#E69F00")],
    labels=["first run", "second run"],
    frameon=False,
)
axes[1].set_xlabel("scan")
plt.show()
