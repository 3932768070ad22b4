"""Values by the names that tools give them."""

import pytest

from proxy.tools.replay.logs.fields import decode, first_count, first_text, lookup, seconds, values

DOCUMENT = {"a": {"b.c": 5}, "text": '{"d": "x"}', "empty": {}, "list": [1]}


def test_a_path_leads_through_objects_and_through_text_that_holds_json():
    assert lookup(DOCUMENT, "a/b.c") == 5
    assert lookup(DOCUMENT, "text/d") == "x"
    assert lookup(DOCUMENT, "") is DOCUMENT
    assert lookup(DOCUMENT, "list/0") is None


def test_empty_values_are_passed_over():
    assert list(values(DOCUMENT, ("empty", "none", "a/b.c"))) == [5]
    assert first_text(DOCUMENT, ("a/b.c", "text/d")) == "x"
    assert first_count({"a": 0, "b": 7.0, "c": "8"}, ("c", "a", "b")) == 7


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1_790_000_000, 1_790_000_000.0),
        (1.5, 1.5),
        (1_790_000_000_123, 1_790_000_000.123),
        ("1790000000123456789", 1_790_000_000.123456789),
        ("2026-09-21T14:13:20Z", 1_790_000_000.0),
        ("2026-09-21T16:13:20.500+02:00", 1_790_000_000.5),
        ("2026-09-21 14:13:20", 1_790_000_000.0),
        ("soon", None),
        (True, None),
        (None, None),
        (1e30, None),
        (float("nan"), None),
    ],
)
def test_times_are_read_in_every_unit_and_as_text(value, expected):
    assert seconds(value) == (None if expected is None else pytest.approx(expected))


def test_text_that_is_no_json_stays_text():
    assert decode("{nothing") == "{nothing"
    assert decode(" [1]") == [1]
    assert decode(5) == 5
