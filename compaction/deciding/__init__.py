"""Whether folding pays, when, and whether it did."""
