"""
P-values after selection
========================

What a p-value promises: if a variable does not matter, a p-value below 0.05 comes up in one of twenty cases. After a
selection that promise is void. On rows that took no part in the selection it holds again.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

import fbed

# %%
# 150 tables of 200 rows and 30 columns of pure noise. From the first half of each the best variable is kept, with the
# p-value of its selection; then it is tested again on the other half.

rng = np.random.default_rng(0)
naive, fresh = [], []
for _ in range(150):
    X, y = rng.normal(size=(200, 30)), rng.normal(size=200)
    first = fbed.select(X[:100], y[:100], alpha=0.999999, max_features=1, backward=False).trace[0]
    naive.append(first.p_value)
    fresh.append(stats.pearsonr(X[100:, first.variable], y[100:]).pvalue)

# %%
# On the diagonal, p-values keep their promise. Those of selected variables are far above it: most are 'significant'.

figure, axes = plt.subplots(figsize=(5.5, 5), layout="constrained")
for values, label, colour in ((naive, "of the selection", "#D55E00"), (fresh, "on fresh rows", "#0072B2")):
    share = np.arange(1, len(values) + 1) / len(values)
    axes.step(np.sort(values), share, where="post", label=label, color=colour)
axes.plot([0, 1], [0, 1], color="black", linestyle=":", label="what a p-value promises")
axes.set(xlabel="p-value", ylabel="share of tables with a p-value as small", xlim=(0, 1), ylim=(0, 1))
axes.legend(frameon=False, loc="lower right")
plt.show()
