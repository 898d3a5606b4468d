"""A source whose reader could not be made: the fault of a trigger's own code. It is shown and told of like any other trouble,
and the rest of the app runs on.
"""

from __future__ import annotations

from collections.abc import Sequence

from wakeful.errors import WakefulError
from wakeful.stored_errors import words_of
from wakeful.triggers.source import Batch, Context, Reader, ReadTrigger, SourceTrouble


def make_reader(triggers: Sequence[ReadTrigger], context: Context) -> Reader:
    """The reader of triggers that share one. A refusal of ours is the app's; whatever else is raised concerns this source."""
    first = triggers[0]
    try:
        made: object = first.reader(triggers, context)
        if not isinstance(made, Reader):
            message = f"it is {type(made).__name__}, which is no wakeful.sources.Reader"
            raise TypeError(message)
    except WakefulError:
        raise
    except Exception as error:
        return Unmade(first, error)
    return made


class Unmade(Reader):
    """Stands for a reader that there is not."""

    kind = "unmade"

    def __init__(self, trigger: ReadTrigger, error: Exception) -> None:
        super().__init__(trigger.describe())
        words = " ".join(words_of(error).split())
        self._trouble = (
            f"{self.name}: its trigger made no reader, {type(trigger).__name__}.reader() raised "
            f"{type(error).__name__}: {words}. Mend the trigger, and start the app again"
        )

    async def open(self, cursor: str | None) -> None:  # noqa: ARG002 it never comes to that
        raise SourceTrouble(self._trouble)

    async def read(self, within: float) -> Batch | None:  # noqa: ARG002
        raise SourceTrouble(self._trouble)

    async def close(self) -> None:
        """There is nothing to let go."""
