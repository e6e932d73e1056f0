"""Rules on adapters and quantization: PEFT settings, bitsandbytes, what may be combined with what."""
