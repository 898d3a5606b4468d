"""A source whose trigger failed to create its reader: a bug in the trigger's own code. It is shown and alarmed like any
other source trouble, and the rest of the app keeps running.
"""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.errors import WakefulError
from wakeful.stored_errors import words_of
from wakeful.triggers.source import Batch, Context, Reader, ReadTrigger, SourceTrouble


def make_reader(triggers: Sequence[ReadTrigger], context: Context) -> Reader:
    """The reader of triggers that share one. Raises WakefulError as it is; any other exception affects this source only."""
    first = triggers[0]
    try:
        made: object = first.reader(triggers, context)
        if not isinstance(made, Reader):
            message = f"it returned {type(made).__name__}, which is not a wakeful.sources.Reader"
            raise TypeError(message)
    except WakefulError:
        raise
    except Exception as error:
        return Unmade(first, error)
    return made


class Unmade(Reader):
    """Stands in for a reader that could not be created; every call raises the reason."""

    kind = "unmade"

    def __init__(self, trigger: ReadTrigger, error: Exception) -> None:
        super().__init__(trigger.describe())
        words = " ".join(words_of(error).split())
        self._trouble = (
            f"{self.name}: its trigger created no reader: {type(trigger).__name__}.reader() raised "
            f"{type(error).__name__}: {words}. Fix the trigger and restart the app"
        )

    async def open(self, cursor: str | None) -> None:  # noqa: ARG002 the shape of a reader
        raise SourceTrouble(self._trouble)

    async def read(self, within: float) -> Batch | None:  # noqa: ARG002
        raise SourceTrouble(self._trouble)

    async def close(self) -> None:
        """Nothing to release."""
