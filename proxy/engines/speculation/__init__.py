"""Advice on speculative decoding: which settings pay, as measured."""
