"""True if there may be tags in JSON."""

import pytest

from proxy.prefix.prompts.tagged import may_hold_tags


@pytest.mark.parametrize("raw", [b'"a < b, tg:stable"', b'"tg://resolve"', b'"<t g:"', b""])
def test_what_holds_no_tags_is_passed_over(raw: bytes):
    assert not may_hold_tags(raw)


@pytest.mark.parametrize(
    "raw", [b'"<tg:"', b'"\\u003ctg:semi\\u003ea"', b'"\\u003Ctg:semi\\u003Ea"']
)
def test_tags_are_seen_however_json_writes_them(raw: bytes):
    assert may_hold_tags(raw)
