"""Rules on batches and learning-rate schedules."""
