"""A simulated upstream: it behaves like the providers do, and says that it is simulated."""
