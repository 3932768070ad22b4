"""Commands that explain prompt planning and decide on layouts."""
