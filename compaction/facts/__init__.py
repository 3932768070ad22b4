"""What later turns need of earlier ones, a line each, with the turns it comes from."""
