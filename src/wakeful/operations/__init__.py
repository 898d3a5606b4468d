"""Operators' actions on stored data: settle, replay, release, discard, set. The command line and the HTTP API share this."""
