"""Transitions, one file per noun. `table` lists them all; a command that only reads loads none."""
