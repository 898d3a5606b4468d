"""Objects in buckets, as events."""
