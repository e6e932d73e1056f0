"""Rules on Megatron-LM's arguments: batch, parallel sizes, schedules, switches that exclude each other."""
