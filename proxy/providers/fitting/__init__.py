"""Fits calls to what the model and the provider at hand take; pure."""
