"""Rules on keys: unknown, misspelt, removed, deprecated, and values of the wrong type."""
