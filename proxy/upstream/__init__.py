"""The data plane: HTTP connections to providers and engines, behind one small port."""
