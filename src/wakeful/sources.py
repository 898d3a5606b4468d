"""The parts of a custom trigger: `from wakeful.sources import Batch, Reader`. `triggers/source.py` says how to use them."""

from wakeful.cel import Match
from wakeful.stores.verbs.take_in import Item
from wakeful.triggers.base import Trigger
from wakeful.triggers.source import Batch, Context, Reader, ReadTrigger, SourceTrouble, Unreadable

__all__ = ["Batch", "Context", "Item", "Match", "ReadTrigger", "Reader", "SourceTrouble", "Trigger", "Unreadable"]
