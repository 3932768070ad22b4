"""Files in the data folder in which supervisors and gateways publish the state of engines."""
