"""The one door: every event comes in here, whatever brought it."""
