"""Refused keys are logged: who called and why, seldom, and never the key."""

import logging
from typing import Any

import pytest

from proxy.api.refused_keys import RefusedKeyLog, unauthenticated_error
from tests.fakes.clock import ManualClock


def request(address: Any = ("192.0.2.7", 1)) -> dict[str, Any]:
    return {"client": address, "headers": [(b"authorization", b"Bearer tg-secret")]}


def test_a_refused_key_is_logged_with_its_address_and_without_the_key(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING, "thriftgate.keys"):
        error = RefusedKeyLog(ManualClock(100.0)).refuse(
            request(), unauthenticated_error("tg-secret")
        )

    assert (error.status, error.code) == (401, "invalid_api_key")
    assert caplog.messages == ["A call from 192.0.2.7 was refused with 401 invalid_api_key"]
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("token", "slip"),
    [
        ('"tg-abc"', "quotation marks"),
        ("\u201ctg-abc\u201d", "quotation marks"),
        ("sk-ant-api03-abc", "a provider's key"),
        ("AIzaSyAbc", "a provider's key"),
        ("tg-abc", "unknown or was revoked"),
    ],
)
def test_a_bad_key_is_refused_with_the_likely_slip_and_without_the_key(
    token: str, slip: str
) -> None:
    error = unauthenticated_error(token)

    assert slip in error.message
    assert "abc" not in error.message.lower()


def test_refused_keys_are_logged_once_in_ten_seconds_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ticks = ManualClock(100.0)
    log = RefusedKeyLog(ticks)
    with caplog.at_level(logging.WARNING, "thriftgate.keys"):
        for _ in range(1001):
            log.refuse(request(), unauthenticated_error("tg-secret"))
        ticks.now += 10
        log.refuse(request(), unauthenticated_error(""))
        ticks.now += 10
        log.refuse(request(), unauthenticated_error(""))

    assert [message.partition("401 ")[2] for message in caplog.messages] == [
        "invalid_api_key",
        "missing_api_key; 1,000 more since the line before",
        "missing_api_key",
    ]


@pytest.mark.parametrize(
    ("client", "shown"),
    [(None, "an unknown address"), (("a\nb" + "x" * 999, 1), "a\\nb" + "x" * 61)],
)
def test_an_address_cannot_write_lines_of_its_own(
    client: Any, shown: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "thriftgate.keys"):
        RefusedKeyLog(ManualClock(100.0)).refuse(request(client), unauthenticated_error(""))

    assert caplog.messages == [f"A call from {shown} was refused with 401 missing_api_key"]
