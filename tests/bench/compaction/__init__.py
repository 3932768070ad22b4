"""The yardstick of compaction: facts beside five simple ways at the same tokens."""
