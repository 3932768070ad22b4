"""Real vLLM, started by a profile and supervised, behind a gateway: one process for all tests.

The tests run in the order in which they stand: the last ones end the process.
"""

import asyncio
import contextlib
import json
import re
import signal
import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import httpx2
import pytest

from proxy.engines.adapters.adapter import MetricNames
from proxy.engines.adapters.vllm import VLLM
from proxy.engines.metrics.metrics_page import parse_metrics_page
from proxy.engines.routing.kv_event_messages import decode_message
from proxy.engines.routing.kv_events import KvEventIndex
from proxy.engines.routing.prompt_chain import chain_of_token_ids, chain_root
from proxy.engines.supervision.unknown_flags import unknown_flags
from proxy.records.receipt import Outcome
from proxy.upstream.zmq_subscriber import subscribe
from tests.fakes.figures import FIGURES
from tests.fakes.served_vllm import (
    PATIENCE_S,
    VLLM_FOLDER,
    ServedEngine,
    gateway_at_two_addresses,
    kv_events_address,
    running_flag_parser,
    served_vllm,
)
from tests.fakes.source_trees import ROOT

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not (VLLM_FOLDER / ".ready").exists(),
        reason="NO REAL vLLM WAS TESTED: make vllm installs it (2.5 GB)",
    ),
]
REPLICA = "x-thriftgate-replica"
TEXT = " is how the clerk wrote it down." * 40


@pytest.fixture(scope="module")
def flag_parser(tmp_path_factory: pytest.TempPathFactory) -> Iterator["subprocess.Popen[str]"]:
    with running_flag_parser(tmp_path_factory.mktemp("flags")) as parser:
        yield parser


@pytest.fixture(scope="module")
def engine(
    tmp_path_factory: pytest.TempPathFactory, flag_parser: "subprocess.Popen[str]"
) -> Iterator[ServedEngine]:
    """It starts while vLLM's parser of flags reads all profiles."""
    with served_vllm(tmp_path_factory.mktemp("vllm")) as served:
        yield served


@contextmanager
def stream_tokens(engine: ServedEngine, prompt: str, tokens: int) -> Iterator[httpx2.Response]:
    """A stream of so many tokens through the gateway."""
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": prompt}],
        "stream": True,
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
    }
    headers = {"authorization": f"Bearer {engine.gateway.key}"}
    url = f"{engine.gateway.url}/chat/completions"
    with httpx2.stream("POST", url, json=body, headers=headers, timeout=PATIENCE_S) as answer:
        yield answer


def text_of(answer: httpx2.Response, on_first: Callable[[], None] = lambda: None) -> str:
    """The whole stream; the function is called when its first piece has come."""
    text = ""
    for piece in answer.iter_text():
        if not text:
            on_first()
        text += piece
    return text


def bench(url: str, *options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The cold and the warm figures of `thriftgate bench latency`."""
    command = [sys.executable, "-c", "from proxy.cli.main import main; main()"]
    words = ["bench", "latency", url, "--concurrency", "1", "--warmup", "1", "--json"]
    words += ["--model", "tiny", "--prompt-tokens", "1500", "--requests", "6"]
    words += ["--output-tokens", "32", "--extra-body", '{"ignore_eos": true, "temperature": 0}']
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, *words, *options], capture_output=True, check=True, timeout=PATIENCE_S, cwd=ROOT
    )
    cold, warm = json.loads(done.stdout)["cells"]
    return cold, warm


def figures_text(path: str, cold: dict[str, Any], warm: dict[str, Any]) -> str:
    """The figures of vLLM with a draft model on one path."""
    miss, hit = cold["ttft_ms"]["p50"], warm["ttft_ms"]["p50"]
    return (
        f"vLLM, {path}: TTFT of a new prompt {miss:.0f} ms, of a cached one {hit:.0f} ms"
        f" ({miss / hit:.1f} times); with a draft model {warm['output_tokens_per_s']:.0f} tokens/s,"
        f" {cold['acceptance_rate']:.0%} accepted, {cold['tokens_per_chunk']:.1f} tokens in a chunk"
    )


def test_vllm_started_by_a_profile_becomes_ready_and_answers_through_the_gateway(engine):
    with stream_tokens(engine, "Hello", 8) as answer:
        text = text_of(answer)

    assert answer.status_code == 200
    assert text.endswith("data: [DONE]\n\n")
    receipt = engine.gateway.receipts(answer.headers["x-request-id"])[-1]
    assert (receipt.outcome, receipt.usage.output) == (Outcome.ANSWERED, 8)


def test_every_metric_name_of_the_adapter_is_exported(engine):
    page = httpx2.get(f"{engine.url}/metrics").text
    exported = {line.split("{")[0].split(" ")[0] for line in page.splitlines()}
    exported |= {name.removesuffix("_sum") for name in exported}
    names = {field.name: getattr(VLLM.metrics, field.name) for field in fields(MetricNames)}

    assert [names[name] for name in names if names[name] and not exported & {*names[name]}] == []
    metrics = parse_metrics_page(page, VLLM)
    assert metrics.missing == ()
    assert metrics.cache_tokens


def test_vllm_knows_the_flags_of_all_shipped_profiles_and_names_one_that_it_does_not(flag_parser):
    output, _ = flag_parser.communicate(timeout=PATIENCE_S)
    refusals = json.loads(output.splitlines()[-1])

    wrong = refusals.pop("wrong")
    assert wrong.endswith("unrecognized arguments: --no-such-flag")
    assert unknown_flags(wrong.splitlines()) == {"--no-such-flag"}
    assert len(refusals) > 40
    assert {name: why for name, why in refusals.items() if why} == {}


@pytest.mark.parametrize("path", ["direct", "through the gateway"])
def test_a_warm_prefix_is_read_from_the_cache_and_a_draft_model_is_accepted(
    engine, path, record_property
):
    key = f"authorization: Bearer {engine.gateway.key}"
    cold, warm = (
        bench(engine.url) if path == "direct" else bench(engine.gateway.url, "--header", key)
    )
    record_property(FIGURES, figures_text(path, cold, warm))

    assert cold["failed"] == warm["failed"] == 0
    assert cold["cached_share"] < 0.1
    assert warm["cached_share"] > 0.7
    assert cold["output_tokens"] == 32
    assert cold["acceptance_rate"] > 0.5
    assert cold["tokens_per_chunk"] > 1.5
    assert cold["engine_prefill_ms"] > 0
    assert cold["engine_queue_ms"] is not None


def test_the_receipt_of_a_call_has_cached_tokens_and_accepted_draft_tokens(engine):
    prompt = "The same words again and again. " * 40
    receipts = []
    for _ in range(2):
        with stream_tokens(engine, prompt, 32) as answer:
            text_of(answer)
        receipts.append(engine.gateway.receipts(answer.headers["x-request-id"])[-1])
    first, second = receipts

    assert first.usage.cache_read == 0
    assert second.usage.cache_read >= 1024
    assert second.usage.cache_read % 32 == 0
    assert second.cost_nanos < first.cost_nanos
    assert 0 < second.accepted_tokens <= second.draft_tokens


@pytest.mark.parametrize(
    ("endpoint", "body"),
    [
        ("chat/completions", {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 4}),
        ("completions", {"prompt": TEXT, "max_tokens": 4}),
        ("responses", {"input": TEXT, "max_output_tokens": 4}),
        ("messages", {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 4}),
    ],
)
def test_with_hints_a_team_reads_its_own_prompt_from_the_cache_and_no_other_teams(
    engine, endpoint, body
):
    """Each call carries the gateway's ``priority`` and its team's ``cache_salt``."""
    # Each API has a text of its own, so that none finds what another one cached.
    document = json.loads(json.dumps({"model": "tiny", **body}).replace(TEXT, endpoint + TEXT))
    hits = "vllm:prefix_cache_hits_total"

    def ask(team: int) -> tuple[int, float]:
        key = (engine.gateway.key, engine.other_key)[team]
        before = engine.metric(hits)
        answer = httpx2.post(
            f"{engine.gateway.url}/{endpoint}",
            json=document,
            headers={"authorization": f"Bearer {key}"},
            timeout=PATIENCE_S,
        )
        assert answer.status_code == 200, answer.text
        (receipt,) = engine.gateway.receipts(answer.headers["x-request-id"], team)
        return receipt.usage.cache_read, engine.metric(hits) - before

    first, again, other, other_again = (ask(team) for team in (0, 0, 1, 1))

    assert first == other == (0, 0)
    assert again == other_again
    assert again[0] == again[1] > 1000


def test_vllm_serves_calls_by_the_priority_that_the_gateway_gives_them(engine):
    """Four long calls fill its batch, and of two calls behind them the later one is urgent."""
    request_body = {"model": "tiny", "messages": [{"role": "user", "content": "Count"}]}
    url = f"{engine.gateway.url}/chat/completions"
    headers = {"authorization": f"Bearer {engine.gateway.key}"}
    served = []

    async def story() -> None:
        async with httpx2.AsyncClient(timeout=PATIENCE_S, headers=headers) as client:

            async def call(name: str, tokens: int, **fields: object) -> None:
                body = {**request_body, "max_tokens": tokens, "ignore_eos": True, **fields}
                answer = await client.post(url, json=body)
                served.append((name, answer.status_code))

            async def metric_is(name: str, value: float) -> None:
                await asyncio.to_thread(engine.wait_for_metric, f"vllm:num_requests_{name}", value)

            async with asyncio.TaskGroup() as group:
                first, *waiting_calls = [group.create_task(call("long", 8_000)) for _ in range(4)]
                await metric_is("running", 4)
                patient = group.create_task(call("patient", 8))
                await metric_is("waiting", 1)
                urgent = group.create_task(call("urgent", 8, priority=1))
                try:
                    await metric_is("waiting", 2)
                except AssertionError as reason:
                    raise AssertionError(f"{reason}; calls that ended: {served}") from reason
                first.cancel()
                await asyncio.wait([patient, urgent])
                for waiting_call in waiting_calls:
                    waiting_call.cancel()

    asyncio.run(story())

    assert served == [("urgent", 200), ("patient", 200)]


def test_kv_events_of_vllm_tell_exactly_what_it_then_reads_from_its_cache(engine):
    pytest.importorskip("zmq", reason="the extra [kv-events] is not installed")
    messages = [{"role": "user", "content": "The clerk wrote down what was agreed. " * 30}]
    body = {"model": "tiny", "messages": messages}

    async def story() -> KvEventIndex:
        index = KvEventIndex("tiny", 100_000)
        async with subscribe(kv_events_address(engine.folder)) as events:
            await asyncio.sleep(1.0)  # a subscription that is new misses what is said at once
            request_body = {**body, "max_tokens": 4, "cache_salt": "acme"}
            await asyncio.to_thread(httpx2.post, chat, json=request_body, timeout=PATIENCE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5.0):
                    while True:
                        index.apply(*decode_message(await events.receive()))
        return index

    chat = f"{engine.url}/v1/chat/completions"
    index = asyncio.run(story())
    ids = httpx2.post(f"{engine.url}/tokenize", json=body, timeout=60).json()["tokens"]
    content, size = array("I", ids).tobytes(), index.block_size
    expected = index.matched_tokens(chain_of_token_ids(chain_root("tiny", "acme"), content, size))
    again = {**body, "max_tokens": 1, "cache_salt": "acme"}
    usage = httpx2.post(chat, json=again, timeout=PATIENCE_S).json()["usage"]

    assert usage["prompt_tokens"] == len(ids)
    assert size == 32
    assert expected == usage["prompt_tokens_details"]["cached_tokens"] > 500
    assert not index.matched_tokens(chain_of_token_ids(chain_root("tiny", ""), content, size))


@pytest.mark.parametrize("endpoint", ["chat/completions", "messages", "responses"])
def test_a_gateway_knows_by_its_events_what_it_holds_whatever_the_text_looks_like(
    engine, endpoint, tmp_path
):
    pytest.importorskip("zmq", reason="the extra [kv-events] is not installed")
    text = f"What the clerk wrote down was read to {endpoint}. " * 30
    limit = "max_output_tokens" if endpoint == "responses" else "max_tokens"
    body = {"model": "tiny", limit: 16}
    field = "input" if endpoint == "responses" else "messages"
    first = {**body, field: [{"role": "user", "content": text}]}
    # The same prompt in other bytes: the guess by its text knows nothing of it.
    same = {**body, field: [{"content": text, "role": "user"}]}

    async def story() -> tuple[str, str]:
        async with gateway_at_two_addresses(engine, tmp_path) as (client, url):
            await asyncio.sleep(2.0)  # pages are read, and events subscribed to
            cold = await client.post(f"{url}/{endpoint}", json=first)
            warm = cold
            for _ in range(10):
                await asyncio.sleep(1.5)  # /tokenize may be late beside other work
                warm = await client.post(f"{url}/{endpoint}", json=same)
                if warm.headers[REPLICA].partition("; ")[2].startswith("warm"):
                    break
            return cold.headers[REPLICA], warm.headers[REPLICA]

    cold, warm = asyncio.run(story())
    warm_tokens, of = re.findall(r"\d+", warm.partition("warm: ")[2])

    assert "warm" not in cold  # "cold", or that of a call which explores
    assert int(warm_tokens) > 0.9 * int(of)


def test_a_killed_worker_breaks_the_call_which_is_priced_for_what_was_delivered(engine):
    before = engine.replica()
    worker = next(
        process for process in engine.processes() if "VLLM::Worker" in " ".join(process.cmdline())
    )
    with stream_tokens(engine, "Count", 6000) as answer:
        text = text_of(answer, on_first=worker.kill)
    receipt = engine.gateway.receipts(answer.headers["x-request-id"])[-1]

    assert answer.status_code == 200
    assert '"error"' in text
    assert receipt.outcome is Outcome.BROKEN
    assert 0 < receipt.usage.output < 6000
    assert receipt.cost_nanos >= 4_000 * receipt.usage.output
    engine.wait_until_ready(but=before.pid)
    assert engine.replica().restarts == 1


def test_sigterm_lets_a_running_stream_end_and_leaves_no_process(engine):
    engine.wait_until_ready()
    processes = engine.processes()
    with stream_tokens(engine, "Count", 600) as answer:
        text = text_of(answer, on_first=lambda: engine.command.send_signal(signal.SIGTERM))

    assert '"error"' not in text
    assert '"finish_reason":"length"' in text.replace(" ", "")
    assert engine.command.wait(PATIENCE_S) == 0
    assert [process for process in processes if process.is_running()] == []
