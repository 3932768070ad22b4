"""Answers that several callers get: found in the cache, or shared while they are under way."""
