"""Rules on keys: unknown, misspelled, removed, deprecated, and values of the wrong type."""
