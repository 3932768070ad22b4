"""Files in the data folder that say what supervisors and gateways know of engines."""
