"""The gateway: the only package that touches the world."""
