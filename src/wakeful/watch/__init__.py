"""Watching: finds what should have happened but did not, and raises alarms."""
