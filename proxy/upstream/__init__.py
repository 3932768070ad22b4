"""The data plane: whatever answers completions, behind one small port."""
