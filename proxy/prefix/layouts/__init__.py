"""Layouts: the slots of texts and tools, declared or learned, and the order they are sent in."""
