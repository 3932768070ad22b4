"""Self-hosted inference engines: profiles, launch commands, processes, metrics, replica routing."""
