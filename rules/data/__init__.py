"""Rules on data and tokenization: sequence lengths, packing, padding, datasets that a release no longer reads."""
