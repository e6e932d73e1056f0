"""Rules on files that contradict each other."""
