"""Shared by all commands: parsing arguments, opening a store, identifying the operator, and printing."""
