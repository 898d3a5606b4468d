from __future__ import annotations

from typing import Any

import pytest

from wakeful import App
from wakeful.clock import duration
from wakeful.errors import ConfigError


def test_one_bound_is_that_of_every_source():
    assert App("shop", lag_within="1h").lag_within.within("orders") == duration("1h")


def test_each_source_has_its_own_by_its_name_and_the_others_the_default():
    lags = App("shop", lag_within={"orders": "1h", "archive": None}).lag_within
    assert [lags.within(name) for name in ("orders", "archive", "other")] == [duration("1h"), 0, None]


def test_none_is_any_age():
    assert App("shop", lag_within=None).lag_within.within("orders") == 0


@pytest.mark.parametrize("given", ["soon", {"": "1h"}, {"orders": "soon"}, [5]])
def test_anything_else_is_refused(given: Any):
    with pytest.raises(ConfigError, match="lag_within"):
        App("shop", lag_within=given)
