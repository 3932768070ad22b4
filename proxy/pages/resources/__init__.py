"""Resources of the admin pages, each also at ``/api/v1``; pages show what they answer."""
