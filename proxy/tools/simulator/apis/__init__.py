"""One module per API that the simulator speaks, and the bodies it answers with."""
