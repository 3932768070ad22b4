"""Why a cache read less than it could have."""
