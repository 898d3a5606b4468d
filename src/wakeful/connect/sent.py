"""What the models have in common."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class Sent(BaseModel):
    """Something that a sender sent. Fields that are not named here are kept."""

    model_config = ConfigDict(extra="allow")


class SentInCamelCase(Sent):
    """The same, of a sender whose names are written likeThis."""

    model_config = ConfigDict(extra="allow", alias_generator=to_camel, populate_by_name=True)
