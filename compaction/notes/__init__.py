"""Facts that a small model writes: what it is asked, and what of its answer is believed."""
