"""Metrics of engines: a page read, speeds of decode, and the pressure on the KV cache."""
