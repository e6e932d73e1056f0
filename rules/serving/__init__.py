"""Rules on the arguments of serving engines and their versions."""
