"""Debezium and DMS as a source: rows that change in any database that one of these reads."""
