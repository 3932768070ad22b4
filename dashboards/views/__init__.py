"""Shapes of the admin API: frozen values that a page renders and ``/api/v1`` answers with."""
