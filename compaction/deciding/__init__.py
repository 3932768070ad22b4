"""True if folding pays, when, and whether what was folded was missed."""
