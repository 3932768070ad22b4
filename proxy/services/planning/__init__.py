"""Plans prompts for prefix caches in a running gateway; fails open."""
