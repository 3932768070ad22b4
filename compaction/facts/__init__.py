"""Facts: a line each for what later turns need of earlier ones, with the turns it comes from."""
