"""Events for objects in buckets."""
