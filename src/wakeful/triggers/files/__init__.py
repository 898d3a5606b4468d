"""Events for files that appear, change or disappear."""
