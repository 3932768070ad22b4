"""Reading a conversation: messages, units, turns, and prefix digests."""
