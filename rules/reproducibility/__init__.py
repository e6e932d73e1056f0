"""Rules on reproducibility: seeds, revisions, remote code."""
