"""Where users come in: `select`, `path` and the scikit-learn selector, over one problem."""
