"""Models of what services send, for a handler's second parameter, with names and types.

    from wakeful.senders.github import PullRequestEvent

    async def review(run: Run, event: PullRequestEvent) -> None: ...

A model declares the fields that are used most. Other fields are kept as received (`event.model_extra`), and fields that a sender
sometimes leaves out are optional: a new field at the sender's does not cause a dead letter.
"""
