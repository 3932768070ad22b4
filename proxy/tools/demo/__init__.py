"""The demonstration: a gateway, the simulator and two hundred calls."""
