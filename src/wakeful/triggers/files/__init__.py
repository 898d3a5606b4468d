"""Files that appear, change and go, as events."""
