"""What a call uses that keeps state, each around a pure core."""
