"""Rules on secrets, foreign code and open endpoints."""
