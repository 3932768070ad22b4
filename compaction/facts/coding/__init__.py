"""Facts of coding work: files, lines of them, and commands."""
