"""
A Markov blanket, and what data find of it
==========================================

In data from a known network one can compare what was selected with the truth.
"""

import matplotlib.pyplot as plt

import fbed
from fbed.graphs import DAG, GaussianNetwork, Recovery, draw_blanket

# %%
# A linear network: the weight of an edge is drawn at random, between 0.5 and 1 in size.

dag = DAG(
    [
        ("diet", "weight"),
        ("exercise", "weight"),
        ("weight", "pressure"),
        ("salt", "pressure"),
        ("weight", "glucose"),
        ("pressure", "stroke"),
        ("age", "stroke"),
        ("age", "exercise"),
        ("season", "diet"),
    ]
)
network = GaussianNetwork.random(dag, seed=4)
data = network.sample(400, seed=5).to_frame()

# %%
# *salt* is a spouse of *weight*: they have a child in common. Alone it says nothing about weight, so that one run does
# not find it. The second run does, as *pressure* has been selected by then.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.5), layout="constrained")
for axis, k in zip(axes, (0, 1), strict=True):
    result = fbed.select(data, "weight", alpha=0.01, k=k)
    recovery = Recovery(dag, "weight", result.selected)
    title = f"FBED^{k}: missed {', '.join(recovery.missed) or 'nothing'}"
    draw_blanket(dag, "weight", result.selected, ax=axis, title=title)
plt.show()
