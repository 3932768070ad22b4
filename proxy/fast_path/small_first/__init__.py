"""Sends calls to a small model first, as far as the loss against the large one is proved small."""
