"""Tests of kinds of short texts."""

import pytest

from proxy.prefix.layouts.text_pieces import PlainEvidence, plain_evidence, text_topic


@pytest.mark.parametrize(
    ("unit", "evidence"),
    [
        ("Current time: Monday, 21 September 2026, 14:13:20 UTC", PlainEvidence.CLOCK),
        ('  "now": "2026-11-28T18:42:26Z",', PlainEvidence.CLOCK),
        ("Today is 2026-11-28.", PlainEvidence.IDENTITY),
        ("Date: November 28, 2026", PlainEvidence.IDENTITY),
        ("Request 6fa459ea-ee8a-3ca4-894e-db77e160355e", PlainEvidence.IDENTITY),
        ("Customer: Ines Carvalho (number 400037)", PlainEvidence.IDENTITY),
        ("Write to ines@example.org.", PlainEvidence.IDENTITY),
        ("Ticket 4711, opened by Ines", PlainEvidence.IDENTITY),
        ("Table 12.", PlainEvidence.NONE),
        ("Customer: Ines Carvalho", PlainEvidence.NONE),
        ("Orders above $20000 or 10000.50 wait.", PlainEvidence.NONE),
        ("Write at most 12:100 words to 10.0.0.1:8080.", PlainEvidence.NONE),
        ("At 14:13 ".ljust(200, "x"), PlainEvidence.CLOCK),
        ("At 14:13 ".ljust(201, "x"), PlainEvidence.NONE),
    ],
)
def test_clocks_dates_and_numbers_are_known_by_their_form(unit, evidence):
    assert plain_evidence(unit.strip()) is evidence


@pytest.mark.parametrize(
    ("unit", "topic"),
    [
        ("Current time: noon", "Current time"),
        ('"current_time": "12:00",', "Current time"),
        ("<time>12:00</time>", "Current time"),
        ("- **Date**: 2026-11-28", "Current date"),
        ("Today is November 28, 2026.", "Current date"),
        ("Customer: Ines Carvalho (number 400037)", "Customer"),
        ("Request: 6fa459ea-ee8a-3ca4-894e-db77e160355e", "Request"),
        ("Working directory = /home/ines", "Working directory"),
        ("[doc-00017]: Parcels may be sent back.", "Document"),
        ("Be kind to all.", ""),
        ("Topic: parcels", ""),
        (f"It is 12:00 {'and all is well ' * 20}", ""),
    ],
)
def test_topic_of_a_text_is_told_by_its_name_else_by_its_form(unit, topic):
    assert text_topic(unit) == topic
