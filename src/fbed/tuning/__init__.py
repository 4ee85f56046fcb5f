"""From a selection to predictions: folds, tuning, final models and honest performance."""
