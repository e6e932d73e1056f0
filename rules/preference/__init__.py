"""Rules on reinforcement learning and preference training: GRPO batches, vLLM beside the trainer, loss settings."""
