"""Figures that tests measure and that the end of their output shows, also from other processes."""

import pytest

#: The property of a test's report under which its figures stand.
FIGURES = "figures"


def show_figures(reporter: pytest.TerminalReporter) -> None:
    """Write the figures of tests that have passed."""
    passed = reporter.stats.get("passed", [])
    figures = [
        text for report in passed for name, text in report.user_properties if name == FIGURES
    ]
    if figures:
        reporter.section("figures")
    for text in figures:
        reporter.write_line(text)
