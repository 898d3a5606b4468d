"""Looks for what did not happen, and lets people hear of it."""
