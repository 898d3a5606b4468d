"""The HTTP side: events come in, and everything that is stored can be looked at."""
