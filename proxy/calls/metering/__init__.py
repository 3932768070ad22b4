"""Counts, prices and settles what a call used."""
