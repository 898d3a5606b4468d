"""Where everything is kept: verbs that are one transition each, committed in groups."""
