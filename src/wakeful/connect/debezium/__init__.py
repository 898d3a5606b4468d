"""Debezium and DMS as a source: changed rows of any database that they read."""
