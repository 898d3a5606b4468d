"""SQLite as a source: rows that change, by triggers."""
