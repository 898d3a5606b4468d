"""Base classes of the models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Sent(BaseModel):
    """Data that a sender sent. Fields that are not declared are kept."""

    model_config = ConfigDict(extra="allow")


class SentInCamelCase(Sent):
    """The same, for a sender that names fields likeThis."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel, populate_by_name=True)
