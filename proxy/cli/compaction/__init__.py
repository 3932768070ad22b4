"""Commands that show what compaction keeps and why a call was not compacted."""
