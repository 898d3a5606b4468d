"""What the classes of requests say about themselves is true."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import fields
from typing import Any

import pytest

import wakeful.stores
from wakeful.stores.request import FLAGS, ByPerson, OfRun, Request
from wakeful.stores.verbs.table import VERBS


def requests() -> list[type[Request[Any]]]:
    for module in pkgutil.walk_packages(wakeful.stores.__path__, "wakeful.stores."):
        importlib.import_module(module.name)
    found: list[type[Request[Any]]] = [Request]
    for kind in found:
        found += kind.__subclasses__()
    # `slots=True` makes a class anew: the first one may not be collected yet.
    real = {one for one in found if getattr(importlib.import_module(one.__module__), one.__name__, None) is one}
    abstract = {one for one in real if not hasattr(one, "__dataclass_fields__")} | {ByPerson, OfRun}
    return sorted(real - abstract, key=lambda kind: kind.__name__)


@pytest.mark.parametrize("kind", requests(), ids=lambda kind: kind.__name__)
class TestEveryRequest:
    def test_is_carried_out_by_a_verb(self, kind: type[Request[Any]]):
        assert (kind.carried_with or kind) in VERBS or kind.__name__ == "SaveTransacted"

    def test_is_fenced_if_it_names_a_process(self, kind: type[Request[Any]]):
        names = {field.name for field in fields(kind)}  # type: ignore[arg-type]
        assert (kind.fenced_by is not None) is bool(names & {"process", "claim"})

    def test_has_a_claim_if_it_ends_a_run(self, kind: type[Request[Any]]):
        assert kind.ended is None or "claim" in {field.name for field in fields(kind)}  # type: ignore[arg-type]

    def test_has_no_callable_but_a_judge(self, kind: type[Request[Any]]):
        assert not [field.name for field in fields(kind) if "Callable" in str(field.type)]  # type: ignore[arg-type]

    def test_has_a_flag_for_each_method_that_it_overrides(self, kind: type[Request[Any]]):
        for flag, method in FLAGS.items():
            assert getattr(kind, flag) is (getattr(kind, method) is not getattr(Request, method))
