"""Plans prompts for prefix caches: the text that moves, the marks, the expected reads; pure."""
