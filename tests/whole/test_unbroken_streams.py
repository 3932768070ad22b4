"""Whole streams that are cut at random points and continued, over all three APIs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.bench.unbroken import cut_streams
from tests.fakes.unbroken_streams import (
    APIS,
    UnbrokenGateway,
    account,
    booked_tokens,
    unbroken_gateway,
)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[UnbrokenGateway]:
    with unbroken_gateway(tmp_path_factory.mktemp("unbroken"), stall_timeout=0.5) as running:
        yield running


def test_streams_that_are_cut_at_random_points_end_whole_and_are_booked_exactly(
    gateway: UnbrokenGateway,
):
    run = cut_streams(gateway, 48, seed=7)

    assert (run.whole, run.repeated, run.unbalanced) == (48, 0, 0), run.faults
    assert run.continued == 48


@pytest.mark.parametrize(("endpoint", "model"), APIS)
def test_a_stream_that_hangs_midway_is_continued(
    gateway: UnbrokenGateway, endpoint: str, model: str
):
    whole = gateway.ask(endpoint, model, "Tell me about holidays.")
    answer = gateway.ask(endpoint, model, "Tell me about holidays.", ("stall=9",))

    assert (answer.text, answer.error, answer.has_ended) == (whole.text, "", True)
    assert answer.trailer["x-thriftgate-continued"].endswith(": upstream_timeout")


def test_a_model_without_a_route_that_goes_on_ends_with_the_error_event(gateway: UnbrokenGateway):
    answer = gateway.ask("chat/completions", "lonely", "Tell me.", ("death=5",))

    assert answer.error == "upstream_connection_broken"
    assert not answer.has_ended
    (receipt,) = gateway.receipts(answer.call_id)
    assert receipt.final


def test_structured_output_is_not_continued(gateway: UnbrokenGateway):
    answer = gateway.ask(
        "chat/completions", "writer", "Tell me.", ("letters=1,death=5",),
        response_format={"type": "json_object"},
    )  # fmt: skip

    assert answer.error == "upstream_connection_broken"


def test_a_continued_answer_stays_within_its_output_limit(gateway: UnbrokenGateway):
    answer = gateway.ask(
        "messages", "claude", "Tell me about holidays.", ("death=9",), max_tokens=60
    )
    simulated = [account(gateway.lab, exchange) for exchange in gateway.exchanges()]
    stops = [event["delta"] for event in answer.events if event["type"] == "message_delta"]

    assert booked_tokens(gateway.receipts(answer.call_id)) == simulated
    assert sum(written for _, written in filter(None, simulated)) == pytest.approx(60, abs=12)
    assert stops[0]["stop_reason"] == "max_tokens"


def test_a_feature_may_opt_out(tmp_path: Path):
    rules = '[[stream_continuation]]\nname = "all"\n'
    rules += '[[stream_continuation]]\nname = "not-legal"\nfeature = "legal"\n'
    with unbroken_gateway(tmp_path, rules + "max_continuations = 0\n") as gateway:
        gateway.client.headers["x-thriftgate-feature"] = "legal"
        legal = gateway.ask("chat/completions", "writer", "Tell me.", ("death=5",))
        gateway.client.headers["x-thriftgate-feature"] = "other"
        other = gateway.ask("chat/completions", "writer", "Tell me.", ("death=5",))

    assert legal.error == "upstream_connection_broken"
    assert (other.error, other.has_ended) == ("", True)
