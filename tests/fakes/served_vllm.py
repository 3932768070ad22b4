"""Real vLLM for tests, as `thriftgate engine serve` runs it, and a gateway before it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import httpx2
import psutil

from proxy.engines.adapters.vllm import VLLM
from proxy.engines.profiles import Engine, ServingGoal
from proxy.engines.state.replica_report import ProcessState, ReplicaReport
from proxy.engines.state.state_file import read_engine_states
from proxy.engines.techniques import example_profiles
from proxy.settings import Settings
from tests.fakes.background_loop import running_in_thread
from tests.fakes.forked_command import ForkedCommand
from tests.fakes.free_port import free_port
from tests.fakes.gateway_fixture import ServedGateway, served_gateway
from tests.fakes.source_trees import ROOT
from tests.fakes.tiny_vllm_model import write_tiny_vllm_model

VLLM_FOLDER = ROOT / ".venv-vllm"
PYTHON = VLLM_FOLDER / "bin" / "python"
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
hints = ["vllm"]
{speculative}
extra_args = [
  "--load-format", "dummy", "--enforce-eager",
  "--block-size", "32", "--kv-cache-memory-bytes", "{cache_bytes}",
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
provider = "vllm"
hints = ["vllm"]
bills_abandoned = false

[[models]]
id = "tiny"
upstream = "vllm"
price = {{ input = "1.00", cache_read = "0.10", output = "4.00" }}
"""


@dataclass(frozen=True)
class ServedEngine:
    """vLLM as `thriftgate engine serve` runs it, and a gateway before it.

    Attributes:
        gateway: It has keys of two teams, so that it keeps their caches apart.
        other_key: A key of the second one.
    """

    command: ForkedCommand
    folder: Path
    port: int
    gateway: ServedGateway
    other_key: str

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
                replica = self.replica()
                if replica.state is ProcessState.READY and replica.pid != but:
                    return replica
            time.sleep(0.1)
        raise AssertionError((self.folder / "serve.log").read_text())

    def metric(self, name: str) -> float:
        """The sum of the series of one of its own metrics."""
        lines = httpx2.get(f"{self.url}/metrics").text.splitlines()
        values = [line.rpartition(" ")[2] for line in lines if line.startswith(f"{name}{{")]
        return sum(map(float, values))

    def wait_for_metric(self, name: str, value: float) -> None:
        until = time.monotonic() + 60
        while self.metric(name) != value:
            assert time.monotonic() < until, f"{name} is {self.metric(name)}, not {value}"
            time.sleep(0.02)

    def processes(self) -> list[psutil.Process]:
        return psutil.Process(self.command.pid).children(recursive=True)


#: A gateway before an engine at a port, in a folder: with a key of its first team, and one of the
#: second.
GatewayBefore = Callable[[int, Path], AbstractAsyncContextManager[tuple[ServedGateway, str]]]


@asynccontextmanager
async def gateway_before(port: int, folder: Path) -> AsyncIterator[tuple[ServedGateway, str]]:
    """The gateway with a key of its first team, and a key of its second one."""
    catalog = folder / "catalog.toml"
    catalog.write_text(CATALOG.format(port=port))
    chosen = Settings(folder=folder / "gateway", catalog=catalog)
    async with served_gateway(chosen) as served:
        yield served, _second_key(served)


def _second_key(served: ServedGateway) -> str:
    """A key of a second team, which is made."""
    teams, now = served.gateway.store.teams, 1_790_000_000.0
    _, key = teams.create_key(teams.create("other", now=now).id, "first", now=now)
    return key


def kv_events_address(folder: Path) -> str:
    return f"ipc://{folder}/kv.sock"


def written_profile(folder: Path, draft_tokens: int, cache_mib: int) -> tuple[Path, int]:
    port = free_port()
    model = json.dumps(str(write_tiny_vllm_model(folder / "model")))
    draft = f'speculative = {{ method = "draft_model", draft = {model}, tokens = {draft_tokens} }}'
    file = folder / "engines.toml"
    file.write_text(
        PROFILE.format(
            python=json.dumps(str(PYTHON)),
            model=model,
            port=port,
            speculative=draft if draft_tokens else "",
            cache_bytes=cache_mib << 20,
            kv_events=json.dumps(kv_events_address(folder)),
        )
    )
    return file, port


@contextmanager
def running_flag_parser(folder: Path) -> Iterator["subprocess.Popen[str]"]:
    """vLLM's parser of flags, which reads the commands of all shipped profiles and a wrong one.

    It runs beside what is started meanwhile, and ends by itself.
    """
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
    with (
        file.open() as commands_file,
        subprocess.Popen(  # noqa: S603 - our own command
            [str(PYTHON), "-c", FLAG_PARSER], stdin=commands_file, stdout=subprocess.PIPE, text=True
        ) as parser,
    ):
        try:
            yield parser
        finally:
            parser.kill()


@asynccontextmanager
async def attached_gateway(port: int, folder: Path) -> AsyncIterator[tuple[ServedGateway, str]]:
    """The gateway before the engine as one that others run, whose metrics it reads; as above."""
    file = folder / "attached.toml"
    file.write_text(
        f'[engines.plain]\nengine = "vllm"\nserved_name = "tiny"\n'
        f'replicas = ["http://127.0.0.1:{port}/v1"]\n'
    )
    chosen = Settings(folder=folder / "gateway", engines=file)
    async with served_gateway(chosen) as served:
        yield served, _second_key(served)


@asynccontextmanager
async def gateway_at_two_addresses(
    engine: ServedEngine, folder: Path
) -> AsyncIterator[tuple[httpx2.AsyncClient, str]]:
    """A gateway of two teams that takes the engine for two replicas; a client, and its URL.

    Args:
        engine: The engine.
        folder: The gateway's own.
    """
    urls = [f"http://{host}:{engine.port}/v1" for host in ("127.0.0.1", "localhost")]
    file = folder / "twice.toml"
    file.write_text(
        f'[engines.twice]\nengine = "vllm"\nserved_name = "tiny"\nreplicas = {json.dumps(urls)}\n'
        f"kv_events = {json.dumps([kv_events_address(engine.folder)] * 2)}\n"
        f'hints = ["vllm"]\n'
    )
    chosen = Settings(folder=folder / "gateway", engines=file)
    async with served_gateway(chosen) as served:
        _second_key(served)
        headers = {"authorization": f"Bearer {served.key}"}
        async with httpx2.AsyncClient(timeout=PATIENCE_S, headers=headers) as client:
            yield client, served.url


@contextmanager
def served_vllm(
    folder: Path,
    *,
    draft_tokens: int = 4,
    cache_mib: int = 64,
    before: GatewayBefore = gateway_before,
) -> Iterator[ServedEngine]:
    """The engine once it is ready; it is ended at the end.

    Args:
        folder: For its model, its profile and its gateway.
        draft_tokens: Tokens that a draft model proposes; 0 for no draft model.
        cache_mib: Size of its KV cache; a token takes 1 KiB, without a draft model.
        before: The gateway before it.
    """
    file, port = written_profile(folder, draft_tokens, cache_mib)
    environment = {**os.environ, "THRIFTGATE_FOLDER": str(folder)}  # noqa: TID251 - a child needs it
    log = folder / "serve.log"
    words = ["engine", "serve", "tiny", "--file", str(file)]
    with running_in_thread(lambda: before(port, folder)) as (gateway_fixture, other):
        command = ForkedCommand(words, environment, log, log)
        served = ServedEngine(command, folder, port, gateway_fixture, other)
        try:
            served.wait_until_ready()
            yield served
        finally:
            command.send_signal(signal.SIGTERM)
            command.send_signal(signal.SIGTERM)
            try:
                command.wait(30)
            except TimeoutError:
                command.kill()
