"""SQLite as a source: changed rows, by triggers."""
