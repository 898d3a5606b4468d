"""Shared by all sources of changed rows: a change, its cause, outboxes, and the SQL to install."""
