"""Where marks and keys pay: positions, policies, and the optimum they are held against."""
