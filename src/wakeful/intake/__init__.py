"""Intake: every event enters here, from any source."""
