"""Rules on a model's own files: config.json and generation_config.json."""
