"""
The plots of a result
=====================

Four looks at one selection: how the model improved, how candidates were dropped, how large the effects are, and who
would have entered almost as well.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import fbed

X, y = load_breast_cancer(return_X_y=True, as_frame=True)
result = fbed.select(X, y, criterion="ebic")

# %%
# **Steps.** By how much the deviance has fallen after every step. A line parts the runs.

result.plot.steps()
plt.show()

# %%
# **Funnel.** Of 30 candidates, most are dropped early. The second run looks at all of them once more.

result.plot.funnel()
plt.show()

# %%
# **Effects.** Odds ratios per standard deviation, with naive intervals: they ignore that the variables were selected.

result.plot.effects()
plt.show()

# %%
# **Ties.** In each step, the variables whose score came closest to that of the winner. Where they are close, another
# sample might have chosen another name.

result.plot.ties()
plt.show()

# %%
# The same for a grid of settings: how many variables, and which.

grid = fbed.path(X, y, gammas=())
grid.plot.sizes()
plt.show()

# %%

grid.plot.variables()
plt.show()
