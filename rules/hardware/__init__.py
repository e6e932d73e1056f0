"""Rules on what an accelerator can run."""
