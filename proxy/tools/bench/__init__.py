"""Latency of any OpenAI-compatible URL: prompts, timed calls, percentiles, charts."""
