"""Receipts as lines of the log, and back."""

import json
import logging
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.cli.main import LOG_FORMAT
from proxy.errors import OperatorError
from proxy.records.receipt import Receipt
from proxy.store.journal.lines import encode, frame
from proxy.store.journal.logged_receipts import (
    MARKER,
    receipt_from_log,
    to_log_line,
)
from tests.fakes.receipts import a_receipt

RECEIPT = a_receipt(1)


def line(receipt: Receipt = RECEIPT, name: str = "proxy.store.journal.journal") -> str:
    """A line of the log as the gateway writes it."""
    message = MARKER + to_log_line(frame(encode(receipt)))
    record = logging.LogRecord(name, logging.CRITICAL, "", 0, message, (), None)
    return logging.Formatter(LOG_FORMAT).format(record)


def test_a_line_as_the_gateway_logs_it_holds_its_receipt() -> None:
    assert receipt_from_log(line() + "\n") == RECEIPT


@given(st.text(max_size=30), st.text(max_size=30))
def test_texts_of_callers_come_back_whole_from_a_line_of_plain_ascii(
    feature: str, note: str
) -> None:
    receipt = a_receipt(1, feature=feature.replace("\0", ""), notes=(note.replace("\0", ""),))
    try:
        encode(receipt).decode()
    except UnicodeError:
        return
    log_line = to_log_line(frame(encode(receipt)))

    assert log_line.isascii()
    assert "\n" not in log_line
    assert receipt_from_log(MARKER + log_line) == receipt


def test_a_kept_prompt_is_not_logged_and_the_rest_is_whole() -> None:
    log_line = line(a_receipt(1, prompt='a "secret" plan\\'))

    assert "secret" not in log_line
    assert receipt_from_log(log_line) == RECEIPT


@pytest.mark.parametrize(
    "collected",
    [
        lambda said: f"Nov 23 15:00:00 host thriftgate[42]: {said}",
        lambda said: json.dumps({"log": said + "\n", "stream": "stderr", "time": "2026-11-23"}),
        lambda said: json.dumps({"level": "critical", "message": said}),
        lambda said: json.dumps({"msg": said[said.index(MARKER) :]}),
        lambda said: f"  {said}\r\n",
    ],
)
def test_a_line_that_a_collector_wrapped_holds_its_receipt(
    collected: Callable[[str], str],
) -> None:
    assert receipt_from_log(collected(line())) == RECEIPT


def test_a_line_of_an_export_holds_its_receipt() -> None:
    assert receipt_from_log(encode(RECEIPT).decode()) == RECEIPT


@pytest.mark.parametrize(
    "other",
    [
        "",
        "Thriftgate listens: set base_url to http://127.0.0.1:8080/v1",
        "2026-11-23 15:00:00,123 INFO thriftgate Reloaded: 71 models",
        '{"level": "info", "msg": "ready"}',
        "{not JSON",
        "[1, 2]",
        '{"call_id": 7}',
    ],
)
def test_a_line_about_something_else_holds_none(other: str) -> None:
    assert receipt_from_log(other) is None


def test_a_receipt_in_another_loggers_line_is_ignored() -> None:
    forged = MARKER + to_log_line(frame(encode(RECEIPT)))
    wrapped = line().replace("a receipt is", f"an upstream said {line()}")

    assert (
        receipt_from_log(f"2026-11-23 15:00:00,123 WARNING thriftgate.upstreams {forged}") is None
    )
    assert (
        receipt_from_log(f"2026-11-23 15:00:00,123 WARNING thriftgate.upstreams {line()}") is None
    )
    assert receipt_from_log(line(name="thriftgate.compaction")) is None
    assert receipt_from_log(wrapped) is None
    assert receipt_from_log(json.dumps({"feature": forged})) is None


@pytest.mark.parametrize(
    ("damaged", "why"),
    [
        (line()[:-5], "its checksum does not fit"),
        (line().replace("model-1", "model-2"), "its checksum does not fit"),
        (line() + "}", "its checksum does not fit"),
        (encode(RECEIPT).decode()[:-5], "no whole JSON"),
        (encode(RECEIPT).decode().replace('"team":', '"teem":'), "missing required field `team`"),
        (MARKER + to_log_line(frame(b"[]")), "it is no receipt"),
        (encode(a_receipt(1, call_id="call_1")).decode(), "'call_1' is no id of a call"),
    ],
)
def test_a_damaged_receipt_is_refused_with_the_reason(damaged: str, why: str) -> None:
    with pytest.raises(OperatorError, match=why):
        receipt_from_log(damaged)
