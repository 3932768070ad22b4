"""Resources of callers, who show their key: answers, contexts, feedback, the usage of a key."""
