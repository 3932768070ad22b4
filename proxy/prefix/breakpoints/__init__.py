"""Cache marks and keys: where they pay, and the optimum that they are compared with."""
