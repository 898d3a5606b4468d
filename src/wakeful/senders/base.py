"""The base class of the models, under its public import path."""

from wakeful.connect.sent import Sent

__all__ = ["Sent"]
