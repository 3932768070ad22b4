"""What ships with the product and is not on a call's way."""
