"""Routes that can serve a call, and what it may generate there."""
