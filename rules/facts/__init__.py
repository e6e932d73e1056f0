"""Rules on facts."""
