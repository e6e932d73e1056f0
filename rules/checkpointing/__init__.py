"""Rules on saving, resuming and keeping checkpoints."""
