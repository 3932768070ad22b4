"""A call as the request for one upstream."""
