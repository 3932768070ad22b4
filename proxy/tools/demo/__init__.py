"""The demonstration: a gateway, the lab and two hundred calls."""
