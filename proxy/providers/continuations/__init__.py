"""Answers that broke off: their text so far, the request that goes on, and the seam; pure."""
