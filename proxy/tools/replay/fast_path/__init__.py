"""Recorded calls as the parts of the fast path would have answered them."""
