"""Output: the checks before anything leaves, the outbox, and the channels."""
