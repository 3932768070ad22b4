"""What folding reads of a conversation: messages, units, turns, and what identifies a prefix."""
