"""Rules on source."""
