"""Figures that tests measure and that the end of their output shows, also from other processes."""

import pytest

#: The property of a test's report under which its figures stand.
FIGURES = "figures"


def show_figures(reporter: pytest.TerminalReporter) -> None:
    """Write the figures of tests that have passed."""
    passed = reporter.stats.get("passed", [])
    found = [text for each in passed for name, text in each.user_properties if name == FIGURES]
    if found:
        reporter.section("figures")
    for text in found:
        reporter.write_line(text)
