"""Real vLLM, started by a profile and supervised, behind a gateway: one process for all tests.

The tests run in the order in which they stand: the last ones end the process.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from array import array
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import httpx2
import psutil
import pytest

from proxy.app import gateway
from proxy.engines.adapters.adapter import MetricNames
from proxy.engines.adapters.vllm import VLLM
from proxy.engines.metrics_page import parse_metrics_page
from proxy.engines.profiles import Engine, ServingGoal
from proxy.engines.routing.kv_event_messages import decode_message
from proxy.engines.routing.kv_events import KvEventIndex
from proxy.engines.routing.prompt_chain import chain_of_token_ids, chain_root
from proxy.engines.state_file import read_engine_states
from proxy.engines.supervised_replica import ProcessState, ReplicaReport
from proxy.engines.techniques import example_profiles
from proxy.records.receipt import Outcome
from proxy.settings import Settings
from proxy.tools.simulator.server import serving
from proxy.upstream.zmq_subscriber import subscribe
from tests.fakes.background_loop import running_in_thread
from tests.fakes.databases import migrated_sqlite
from tests.fakes.forked_command import ForkedCommand
from tests.fakes.free_port import free_port
from tests.fakes.gateway_fixture import GatewayFixture
from tests.fakes.source_trees import ROOT
from tests.fakes.tiny_vllm_model import write_tiny_vllm_model

PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
pytestmark = [
    pytest.mark.vllm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(
        not (ROOT / ".venv-vllm" / ".ready").exists(),
        reason="NO REAL vLLM WAS TESTED: make vllm installs it (2.5 GB)",
    ),
]
PATIENCE_S = 500.0
PROFILE = """
[engines.tiny]
engine = "vllm"
version = "0.32"
program = [{python}, "-m", "vllm.entrypoints.openai.api_server"]
model = {model}
served_name = "tiny"
port = {port}
gpus = 0
max_model_len = 8192
max_sequences = 4
drain_seconds = 60
start_seconds = 500
kv_events = [{kv_events}]
speculative = {{ method = "draft_model", draft = {model}, tokens = 4 }}
extra_args = [
  "--load-format", "dummy", "--enforce-eager",
  "--block-size", "32", "--kv-cache-memory-bytes", "67108864",
]
env = {{ HF_HUB_OFFLINE = "1", DO_NOT_TRACK = "1", TORCH_COMPILE_DISABLE = "1" }}
"""
#: Reads command lines by name, and says which of them it refuses and why.
FLAG_PARSER = """
import contextlib, io, json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = make_arg_parser(FlexibleArgumentParser())
refusals = {}
for name, argv in json.load(sys.stdin).items():
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        parser.parse_args(argv)
    refusals[name] = said.getvalue().strip()
print(json.dumps(refusals))
"""
CATALOG = """
[upstreams.vllm]
kind = "openai"
base_url = "http://127.0.0.1:{port}/v1"
bills_abandoned = false

[[models]]
id = "tiny"
upstream = "vllm"
price = {{ input = "1.00", cache_read = "0.10", output = "4.00" }}
"""


@dataclass(frozen=True)
class ServedEngine:
    """vLLM as `thriftgate engine serve` runs it, and a gateway before it.

    Its parser of flags runs beside it, and ends by itself.
    """

    command: ForkedCommand
    flag_parser: "subprocess.Popen[str]"
    folder: Path
    port: int
    gateway: GatewayFixture

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def replica(self) -> ReplicaReport:
        return read_engine_states(self.folder)[0].replicas[0]

    def wait_until_ready(self, *, but: int = 0) -> ReplicaReport:
        """The replica once it is ready, in another process than the named one."""
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            if (self.folder / "engines").exists() and read_engine_states(self.folder):
                found = self.replica()
                if found.state is ProcessState.READY and found.pid != but:
                    return found
            time.sleep(0.1)
        raise AssertionError((self.folder / "serve.log").read_text())

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.command.pid).children(recursive=True)


@asynccontextmanager
async def gateway_before(port: int, folder: Path) -> AsyncIterator[GatewayFixture]:
    catalog = folder / "catalog.toml"
    catalog.write_text(CATALOG.format(port=port))
    chosen = Settings(folder=folder / "gateway", catalog=catalog)
    migrated_sqlite(chosen.folder / "thriftgate.db")
    async with gateway(chosen) as running, serving(running.app) as url:
        team = running.store.teams.create("acme", now=1_790_000_000.0)
        _, key = running.store.teams.create_key(team.id, "first", now=1_790_000_000.0)
        yield GatewayFixture(url, key, folder, running, lab=None)  # type: ignore[arg-type]


def kv_events_address(folder: Path) -> str:
    return f"ipc://{folder}/kv.sock"


def written_profile(folder: Path) -> tuple[Path, int]:
    port = free_port()
    model = json.dumps(str(write_tiny_vllm_model(folder / "model")))
    file = folder / "engines.toml"
    file.write_text(
        PROFILE.format(
            python=json.dumps(str(PYTHON)),
            model=model,
            port=port,
            kv_events=json.dumps(kv_events_address(folder)),
        )
    )
    return file, port


def start_flag_parser(folder: Path) -> "subprocess.Popen[str]":
    """vLLM's parser of flags, which reads the commands of all shipped profiles and a wrong one."""
    commands = {
        f"{name} for {goal}": VLLM.launch_command(
            replace(profile, version="0.32", goal=goal, program=("vllm",))
        )
        for name, profile in example_profiles().items()
        if profile.engine is Engine.VLLM and not profile.is_attached
        for goal in ServingGoal
    }
    argvs = {name: command.argv[1:] for name, command in commands.items()}
    file = folder / "commands.json"
    file.write_text(json.dumps({**argvs, "wrong": ["--no-such-flag"]}))
    with file.open() as commands_file:
        return subprocess.Popen(  # noqa: S603 - our own command
            [str(PYTHON), "-c", FLAG_PARSER], stdin=commands_file, stdout=subprocess.PIPE, text=True
        )


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedEngine]:
    folder = tmp_path_factory.mktemp("vllm")
    file, port = written_profile(folder)
    environment = {**os.environ, "THRIFTGATE_FOLDER": str(folder)}  # noqa: TID251 - a child needs it
    log = folder / "serve.log"
    words = ["engine", "serve", "tiny", "--file", str(file)]
    with running_in_thread(lambda: gateway_before(port, folder)) as before:
        command = ForkedCommand(words, environment, log, log)
        served = ServedEngine(command, start_flag_parser(folder), folder, port, before)
        try:
            served.wait_until_ready()
            yield served
        finally:
            served.flag_parser.kill()
            with served.flag_parser:  # closes its pipe
                pass
            command.send_signal(signal.SIGTERM)
            command.send_signal(signal.SIGTERM)
            try:
                command.wait(30)
            except TimeoutError:
                command.kill()


@contextmanager
def streamed(engine: ServedEngine, prompt: str, tokens: int) -> Iterator[httpx2.Response]:
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


def bench(engine: ServedEngine, *options: str) -> dict[str, Any]:
    """The document of `thriftgate bench latency` of vLLM itself."""
    command = [sys.executable, "-c", "from proxy.cli.main import main; main()"]
    words = ["bench", "latency", engine.url, "--concurrency", "1", "--warmup", "1", "--json"]
    done = subprocess.run(  # noqa: S603 - our own command
        [*command, *words, *options], capture_output=True, check=True, timeout=PATIENCE_S, cwd=ROOT
    )
    return dict(json.loads(done.stdout))


def test_vllm_started_by_a_profile_becomes_ready_and_answers_through_the_gateway(engine):
    with streamed(engine, "Hello", 8) as answer:
        text = text_of(answer)

    assert answer.status_code == 200
    assert text.endswith("data: [DONE]\n\n")
    receipt = engine.gateway.receipts(answer.headers["x-request-id"])[-1]
    assert (receipt.outcome, receipt.usage.output) == (Outcome.ANSWERED, 8)


def test_every_metric_name_of_the_adapter_is_exported(engine):
    page = httpx2.get(f"{engine.url}/metrics").text
    exported = {line.split("{")[0].split(" ")[0] for line in page.splitlines()}
    exported |= {name.removesuffix("_sum") for name in exported}
    names = {each.name: getattr(VLLM.metrics, each.name) for each in fields(MetricNames)}

    assert [names[each] for each in names if names[each] and not exported & {*names[each]}] == []
    found = parse_metrics_page(page, VLLM)
    assert found.missing == ()
    assert found.cache_tokens


def test_vllm_knows_the_flags_of_all_shipped_profiles_and_names_one_that_it_does_not(engine):
    said, _ = engine.flag_parser.communicate(timeout=PATIENCE_S)
    refusals = json.loads(said.splitlines()[-1])

    assert refusals.pop("wrong").endswith("unrecognized arguments: --no-such-flag")
    assert len(refusals) > 40
    assert {name: why for name, why in refusals.items() if why} == {}


def test_a_warm_prefix_is_read_from_the_cache_and_a_draft_model_is_accepted(engine, capsys):
    document = bench(
        engine,
        *("--prompt-tokens", "1500", "--requests", "6", "--output-tokens", "32"),
        *("--extra-body", '{"ignore_eos": true, "temperature": 0}'),
    )
    cold, warm = document["cells"]
    with capsys.disabled():
        miss, hit = cold["ttft_ms"]["p50"], warm["ttft_ms"]["p50"]
        sys.stdout.write(
            f"\nvLLM: TTFT cold {miss:.0f} ms, warm {hit:.0f} ms ({miss / hit:.1f} times),"
            f" {cold['acceptance_rate']:.0%} of draft tokens accepted,"
            f" {cold['tokens_per_chunk']:.1f} tokens in a chunk\n"
        )

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
        with streamed(engine, prompt, 32) as answer:
            text_of(answer)
        receipts.append(engine.gateway.receipts(answer.headers["x-request-id"])[-1])
    first, second = receipts

    assert first.usage.cache_read == 0
    assert second.usage.cache_read >= 1024
    assert second.usage.cache_read % 32 == 0
    assert second.cost_nanos < first.cost_nanos
    assert 0 < second.accepted_tokens <= second.draft_tokens


def test_its_kv_events_tell_exactly_what_it_then_reads_from_its_cache(engine):
    pytest.importorskip("zmq", reason="the extra [kv-events] is not installed")
    said = [{"role": "user", "content": "The clerk wrote down what was agreed. " * 30}]
    body = {"model": "tiny", "messages": said}

    async def story() -> KvEventIndex:
        index = KvEventIndex("tiny", 100_000)
        async with subscribe(kv_events_address(engine.folder)) as events:
            await asyncio.sleep(1.0)  # a subscription that is new misses what is said at once
            asked = {**body, "max_tokens": 4, "cache_salt": "acme"}
            await asyncio.to_thread(httpx2.post, chat, json=asked, timeout=PATIENCE_S)
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


def test_a_killed_worker_breaks_the_call_which_is_priced_for_what_was_delivered(engine):
    before = engine.replica()
    worker = next(each for each in engine.processes() if "VLLM::Worker" in " ".join(each.cmdline()))
    with streamed(engine, "Count", 6000) as answer:
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
    with streamed(engine, "Count", 600) as answer:
        text = text_of(answer, on_first=lambda: engine.command.send_signal(signal.SIGTERM))

    assert '"error"' not in text
    assert '"finish_reason":"length"' in text.replace(" ", "")
    assert engine.command.wait(PATIENCE_S) == 0
    assert [each for each in processes if each.is_running()] == []
