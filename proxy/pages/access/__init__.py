"""Signing in to the admin pages: sessions, passwords, links, the admin token, OpenID Connect."""
