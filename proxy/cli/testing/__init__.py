"""Commands that try a gateway: simulated upstreams and latency."""
