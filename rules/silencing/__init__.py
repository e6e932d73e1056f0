"""Rules on comments and settings that silence findings."""
