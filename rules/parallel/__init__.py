"""Rules on how a model is split over devices."""
