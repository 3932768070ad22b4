"""Advice on speculative decoding: which method and depth pay, by formula and as measured."""
