"""What a cache should hold, by what was sent, and how one call differs from another."""
