"""Planning for prefix caches: what moves where, what is marked, what a cache should know; pure."""
