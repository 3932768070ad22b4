"""Teams, keys, people and their sessions, and the log of who changed what."""
