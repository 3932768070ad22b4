"""One attempt at a route, and attempts that failed, were left or lost a race."""
