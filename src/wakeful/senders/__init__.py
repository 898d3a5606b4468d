"""What the senders send, as models: a handler's second parameter, for those who want names and types.

    from wakeful.senders.github import PullRequestEvent

    async def review(run: Run, event: PullRequestEvent) -> None: ...

A model names the fields that are used most. What it does not name is kept as it came (`event.model_extra`), and what a sender leaves
out now and then may be missing: a new field at the sender's is no dead letter here.
"""
