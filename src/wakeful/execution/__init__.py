"""Doing the work: claim, run the handler step by step, and settle how it ended."""
