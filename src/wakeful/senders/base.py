"""What the models have in common, where users find it."""

from wakeful.connect.sent import Sent

__all__ = ["Sent"]
