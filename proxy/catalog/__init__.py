"""Models, routes, prices, windows and cache rules, read from TOML; pure."""
