"""The engine demo's figures: rates, cost, one line of JSON, and what is printed of them."""

import json
import re
from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from proxy.configuration import read_catalog
from proxy.records.receipt import Outcome, Receipt
from proxy.settings import read
from proxy.tools.engine_demo import messages
from proxy.tools.engine_demo.calls import EngineAnswer
from proxy.tools.engine_demo.measure import (
    DIRECT,
    DIRECT_DRAFTED,
    DecodeRate,
    FirstTokens,
    Measurements,
)
from proxy.tools.engine_demo.profiles import DRAFTED, NGRAM, PLAIN
from proxy.tools.engine_demo.result import EngineDemoResult, machine_nanos, provider_nanos
from slo.usage import Usage

RECEIPT = Receipt(
    call_id="call_1",
    started=1_790_000_000.0,
    team="t",
    key_id="k",
    endpoint="chat/completions",
    status=200,
    outcome=Outcome.ANSWERED,
    usage=Usage(input=1_000, cache_read=500, output=100),
    cost_nanos=36_000,
    duration=0.36,
    overhead=0.001,
    prefill=0.3,
    decode=0.05,
    draft_tokens=90,
    accepted_tokens=60,
)


def a_result(drafted: float = 3_000.0, *rounds: float) -> EngineDemoResult:
    """A result of as many rounds; with the draft model each had this rate."""
    plain = DecodeRate(rounds=(2_000.0,) * (1 + len(rounds)))
    measured = Measurements(
        decode={
            PLAIN: plain,
            DIRECT: plain,
            DIRECT_DRAFTED: replace(plain, rounds=(2 * drafted, *rounds)),
            DRAFTED: replace(
                plain, rounds=(drafted, *rounds), draft_tokens=200, accepted_tokens=150
            ),
        },
        repeated={PLAIN: plain, NGRAM: replace(plain, draft_tokens=10, accepted_tokens=9)},
        first_tokens=FirstTokens(
            cold=0.5,
            cold_direct=0.4,
            warm=0.01,
            warm_direct=0.008,
            prompt_tokens=1_500,
            cached_tokens=1_480,
        ),
        sample=EngineAnswer(call_id="call_1", text="Yes."),
        question="May I?",
    )
    return EngineDemoResult(
        measured=measured,
        receipt=RECEIPT,
        price_nanos=360_000_000,
        provider_nanos=1_000_000,
        start_seconds=0.5,
        seconds=4.0,
    )


def output_of(result: EngineDemoResult) -> str:
    out = StringIO()
    messages.outcome(Console(file=out, width=200), result)
    return out.getvalue()


def test_the_line_of_the_engine_demo_has_every_promised_figure():
    line = json.loads(a_result().json())

    assert line["engine"] == "llamacpp"
    assert line["tokens_per_s"] == 2_000.0
    assert line["tokens_per_s_speculative"] == 3_000.0
    assert line["acceptance_rate"] == 0.75
    assert line["ttft_cold_ms"] == 500.0
    assert line["tokens_per_s_speculative_direct"] == 6_000.0
    assert line["ttft_warm_ms"] == 10.0
    assert line["ttft_cold_direct_ms"] == 400.0
    assert line["cached_tokens"] == 1_480
    # 0.36 dollars an hour are 0.0001 a second, and 1,000 tokens take a third of one.
    assert line["cost_usd_per_1k"] == 0.000033333
    assert line["call"]["engine_cost_usd"] == 0.000036
    assert line["call"]["provider_cost_usd"] == 0.001


def test_an_hour_of_the_machine_costs_its_price():
    assert machine_nanos(100_000_000, 3_600.0) == 100_000_000


@pytest.mark.parametrize(
    ("drafted", "verdict"),
    [
        ((3_000.0, 3_000.0, 5_000.0), "The draft model pays here: 1.50 times"),
        ((1_800.0, 3_000.0, 2_200.0), "makes no clear difference here: 0.90 to 1.50 times"),
        ((1_500.0, 1_400.0, 1_600.0), "does not pay here (0.75 times)"),
    ],
)
def test_the_engine_demo_says_if_the_draft_model_pays(drafted, verdict):
    result = a_result(*drafted)

    assert verdict in result.verdict
    assert result.verdict in output_of(result)


def test_a_slower_draft_model_does_not_make_output_dearer():
    assert a_result(1_000.0).nanos_per_1k_output == machine_nanos(360_000_000, 0.5)


def test_the_engine_demo_prints_rates_first_tokens_and_both_costs():
    text = output_of(a_result())

    assert re.search(r"with the draft model +3,000 +200 +75\.0%", text)
    assert "1,500 tokens: 500.0 ms cold, 10.0 ms with 1,480 of them cached" in text
    assert "prefill 300.0 ms, decode 50.0 ms; 60 of 90 draft tokens were accepted" in text
    assert "$0.000036" in text
    assert "$0.001000" in text


def test_the_same_tokens_are_priced_at_a_provider_of_the_shipped_catalog():
    nanos = provider_nanos(read_catalog(read({})), RECEIPT)

    assert nanos is not None
    assert nanos > 0
    assert provider_nanos(read_catalog(read({})), Receipt(**_without_usage())) is None


def _without_usage():
    fields = {name: getattr(RECEIPT, name) for name in RECEIPT.__struct_fields__}
    return fields | {"usage": None}
