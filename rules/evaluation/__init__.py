"""Rules on evaluation during training, and on comparing results."""
