"""Facts that a small model writes: the prompt, and the validation of its answer."""
