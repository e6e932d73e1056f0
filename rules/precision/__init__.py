"""Rules on number formats: overflow, loss scaling, master weights."""
