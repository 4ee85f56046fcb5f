"""Options are listed by name where users see them; everywhere they are the same, with the same defaults."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, FrozenInstanceError, fields
from typing import get_type_hints

import numpy as np
import pytest

import fbed
from fbed.api.options import DataArguments, DataOptions, SearchOptions, SelectArguments

OF_ONE_SEARCH = {
    "X",
    "y",
    "familywise",
    "time_limit",
    "n_jobs",
    "progress",
    "memory_limit",
    "checkpoint",
    "client",
}
DEFAULTS = {field.name: field.default for kind in (DataOptions, SearchOptions) for field in fields(kind)}


def test_select_has_all_of_them_with_their_defaults():
    parameters = inspect.signature(fbed.select).parameters
    assert set(parameters) - OF_ONE_SEARCH == set(DEFAULTS)
    assert {name: parameters[name].default for name in DEFAULTS} == DEFAULTS
    assert MISSING not in DEFAULTS.values()


def test_what_may_be_given_by_name_is_what_there_is():
    data, search = ({field.name for field in fields(kind)} for kind in (DataOptions, SearchOptions))
    assert set(get_type_hints(DataArguments)) == data
    assert set(get_type_hints(SelectArguments)) == data | search


@pytest.mark.parametrize("kind", [fbed.FBEDSelector, fbed.FBEDClassifier, fbed.FBEDRegressor, fbed.FBEDCox])
def test_estimators_mean_the_same_by_the_same_names(kind):
    parameters = inspect.signature(kind.__init__).parameters
    shared = [name for name in parameters if name in DEFAULTS and name not in ("family",)]
    assert len(shared) > 5
    for name in shared:
        assert parameters[name].default == DEFAULTS[name], name


def test_options_are_frozen_and_nobody_elses():
    options = DataOptions(cluster=np.arange(3), groups={"a": [0, 1]}, missing="drop", cov="HC3")
    with pytest.raises(FrozenInstanceError):
        options.missing = "error"
    with pytest.raises(TypeError, match="alpah"):
        DataOptions.of({"alpah": 0.05})
    kept = options.without_rows()
    assert (kept.cluster, kept.groups, kept.missing, kept.cov) == (None, None, "drop", "HC3")


def test_iterators_are_read_once():
    options = SearchOptions(include=iter([1, 2]), exclude=iter([3]))
    assert (options.include, options.exclude) == ((1, 2), (3,))
