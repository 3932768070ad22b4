"""Admin pages and cost reports over narrow ports."""
