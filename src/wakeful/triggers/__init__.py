"""Triggers: they turn the outside world into events and decide which events wake an agent."""
