"""Calls through the gateway to a real llama.cpp server with a draft model, and their receipts."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import openai
import pytest

from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.profiles import Engine, EngineProfile, Speculation, SpeculativeMethod
from proxy.records.receipt import PhasesFrom, Receipt
from tests.fakes.engine_profiles import tiny_models
from tests.fakes.free_port import free_port
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.tiny_engine import needs_wheel

pytestmark = needs_wheel
CATALOG = """
[upstreams.tiny]
base_url = "{url}"
bills_abandoned = false
price_per_gpu_hour = "3.60"
gpus = 0

[[models]]
id = "tiny"
upstream = "tiny"
window = 2048
"""
#: A call may take a millisecond in all, so each is late, and one stage is over by most.
POLICIES = """
[[objectives]]
name = "tiny-total"
metric = "total"
p = 95
under = "1ms"
stages = { prefill = "1ms", decode = "1ms" }

[[objectives]]
name = "tiny-prefill"
metric = "prefill"
p = 95
under = "1ms"
"""
STORY = [{"role": "user", "content": "Tell me a story of the fox."}]


@pytest.fixture
def engine_url() -> Iterator[str]:
    """The base URL of a real server with a draft model; on processors alone."""
    draft = Speculation(
        method=SpeculativeMethod.DRAFT_MODEL, draft=str(tiny_models() / "draft.gguf"), tokens=4
    )
    profile = EngineProfile(
        name="tiny",
        engine=Engine.LLAMACPP,
        model=str(tiny_models() / "target.gguf"),
        served_name="tiny",
        port=free_port(),
        gpus=0,
        max_model_len=2_048,
        max_sequences=2,
        speculation=draft,
        extra_args=("--threads", "1", "--threads-batch", "1", "--threads-http", "2"),
    )
    command = LLAMACPP.launch_command(profile, python=sys.executable)
    with subprocess.Popen(command.argv, stderr=subprocess.DEVNULL) as process:  # noqa: S603 - ours
        try:
            _wait_until_healthy(command.health_url)
            yield command.base_url
        finally:
            process.kill()


def _wait_until_healthy(url: str) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urlopen(url, timeout=5):  # noqa: S310 - it is http
                return
        except (URLError, ConnectionError):
            time.sleep(0.05)
    raise AssertionError(url)


def ask(gateway: GatewayFixture, *, stream: bool, **options: Any) -> Receipt:
    """The receipt of one call by the official SDK; a short prompt and a long answer by default."""
    fields = {"messages": STORY, "max_tokens": 60, **options}
    with openai.OpenAI(base_url=gateway.url, api_key=gateway.key, max_retries=0) as client:
        chat: Any = client.chat.completions.with_raw_response
        answer = chat.create(model="tiny", temperature=0, stream=stream, timeout=60, **fields)
        if stream:
            chunks = [chunk for chunk in answer.parse() if chunk.choices]
            assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        else:
            assert answer.parse().choices[0].message.content
    (receipt,) = gateway.receipts(answer.headers["x-request-id"])
    return receipt


def test_a_real_engine_s_receipts_have_phases_drafts_cached_tokens_and_gpu_money(
    engine_url: str, start_gateway: Callable[..., GatewayFixture]
) -> None:
    gateway = start_gateway(more_catalog=CATALOG.format(url=engine_url))
    receipts = [ask(gateway, stream=stream) for stream in (False, True, True)]

    for receipt in receipts:
        phases = (receipt.queue, receipt.prefill, receipt.decode, receipt.transfer)
        measured = [seconds for seconds in phases if seconds is not None]
        assert len(measured) == len(phases)
        assert receipt.phases_from is PhasesFrom.BOTH
        assert receipt.overhead + sum(measured) == pytest.approx(receipt.duration, abs=0.1)
        assert receipt.prefill
        assert receipt.decode
        assert receipt.draft_tokens
        assert receipt.accepted_tokens is not None
        assert receipt.draft_tokens >= receipt.accepted_tokens > 0
        assert receipt.usage is not None
        assert receipt.gpu_seconds is not None
        # It pays for what the engine worked on it, at $3.60 an hour or $0.001 a second.
        worked = receipt.prefill + receipt.decode
        assert receipt.gpu_seconds <= worked + 1e-6
        assert receipt.cost_nanos == pytest.approx(receipt.gpu_seconds * 1e6, abs=2e3)
    for before, after in pairwise(receipts):
        assert before.usage is not None
        assert after.usage is not None
        assert after.usage.cache_read == before.usage.prompt_tokens - 1
    _check_metrics(gateway, receipts)


def test_of_a_real_engine_s_late_calls_the_metrics_name_the_stage_that_broke_the_objective(
    engine_url: str, start_gateway: Callable[..., GatewayFixture], tmp_path: Path
) -> None:
    policies = tmp_path / "policies.toml"
    policies.write_text(POLICIES)
    gateway = start_gateway(more_catalog=CATALOG.format(url=engine_url), policies=policies)
    letter = [{"role": "user", "content": "The fox wrote a letter to the crow. " * 80}]
    answers = [ask(gateway, stream=True) for _ in range(2)]
    reader = ask(gateway, stream=True, messages=letter, max_tokens=1)
    page = metrics_page(gateway)

    assert [_is_mostly_decode(receipt) for receipt in (*answers, reader)] == [True, True, False]
    late = "thriftgate_objective_late_stage_total{objective="
    assert f'{late}"tiny-total",stage="decode"}} 2.0' in page
    assert f'{late}"tiny-total",stage="prefill"}} 1.0' in page
    is_late = [(receipt.prefill or 0.0) > 0.001 for receipt in (*answers, reader)]
    assert f'thriftgate_objective_bad_total{{objective="tiny-prefill"}} {sum(is_late)}.0' in page
    assert 'thriftgate_objective_bad_total{objective="tiny-total"} 3.0' in page


def _is_mostly_decode(receipt: Receipt) -> bool:
    assert receipt.prefill
    assert receipt.decode is not None
    assert max(receipt.prefill, receipt.decode) > 0.001
    return receipt.decode > receipt.prefill


def metrics_page(gateway: GatewayFixture) -> str:
    host = gateway.url.removeprefix("http://").partition("/")[0]
    with closing(HTTPConnection(host, timeout=10)) as caller:
        caller.request("GET", "/metrics")
        return caller.getresponse().read().decode()


def _check_metrics(gateway: GatewayFixture, receipts: list[Receipt]) -> None:
    page = metrics_page(gateway)
    drafted = sum(receipt.draft_tokens or 0 for receipt in receipts)
    assert f'thriftgate_draft_tokens_total{{upstream="tiny"}} {float(drafted)}' in page
    assert 'thriftgate_phase_seconds_count{phase="prefill",upstream="tiny"} 3.0' in page
    assert 'thriftgate_replica_cost_usd_total{state="used",upstream="tiny"}' in page
