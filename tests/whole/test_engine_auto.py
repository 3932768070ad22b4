"""A profile whose speculation is ``auto``, on a real engine over a rolling change."""

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import psutil

from proxy.engines.metrics.decode_speed import MIN_SAMPLES
from proxy.engines.profile_file import parse_profiles
from proxy.engines.speculation.auto_choice import SpeculationChoice, SpeculationRecord
from proxy.engines.speculation.evidence import (
    NO_SPECULATION,
    SpeculationEvidence,
    SpeculationSample,
)
from proxy.engines.state.replica_report import ProcessState, ReplicaReport
from proxy.engines.state.speculation_file import read_record, write_record
from proxy.engines.state.state_file import profile_folder, read_engine_states
from tests.fakes.engine_profiles import tiny_models
from tests.fakes.forked_command import ForkedCommand
from tests.fakes.free_port import free_port
from tests.fakes.tiny_engine import needs_wheel

pytestmark = needs_wheel
_PATIENCE_S = 90.0
DRAFTED = "draft_model:3"
PROFILE = """
[engines.tiny]
engine = "llamacpp"
model = {model}
served_name = "tiny"
port = {port}
gpus = 0
max_model_len = 2048
max_sequences = 2
speculative = {{ method = "auto", draft = {draft} }}
extra_args = ["--threads", "1", "--threads-batch", "1", "--threads-http", "2"]
"""


class AutoEngine:
    """The profile as `thriftgate engine serve` runs it."""

    def __init__(self, folder: Path, command: ForkedCommand) -> None:
        self.folder = profile_folder(folder, "tiny")
        self._data, self._command = folder, command

    def choice(self) -> SpeculationChoice | None:
        """The setting that is applied, as the record says."""
        file = self._data / "engines.toml"
        return read_record(self.folder, parse_profiles(file.read_text(), str(file))["tiny"]).choice

    def ready(self, *, but: int = 0) -> ReplicaReport:
        """The only replica once it is ready, in another process than the named one.

        While a change is under way, those before it may be ready, too.
        """
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            for state in read_engine_states(self._data):
                first = state.replicas[0] if len(state.replicas) == 1 else None
                if first and first.state is ProcessState.READY and first.pid != but:
                    return first
            time.sleep(0.05)
        raise AssertionError((self._data / "serve.log").read_text())

    def change(self, before: ReplicaReport) -> ReplicaReport:
        """The new replica of a rolling change."""
        self._command.send_signal(signal.SIGHUP)
        return self.ready(but=before.pid)


@contextmanager
def running_engine(folder: Path, record: SpeculationRecord) -> Iterator[AutoEngine]:
    """The profile with this record of earlier days; it is stopped at the end."""
    model, draft = (json.dumps(str(tiny_models() / f"{role}.gguf")) for role in ("target", "draft"))
    file = folder / "engines.toml"
    file.write_text(PROFILE.format(model=model, draft=draft, port=free_port()))
    write_record(profile_folder(folder, "tiny"), record)
    environment = {**os.environ, "THRIFTGATE_FOLDER": str(folder)}  # noqa: TID251 - a child needs it
    log = folder / "serve.log"
    command = ForkedCommand(["engine", "serve", "tiny", "--file", str(file)], environment, log, log)
    try:
        yield AutoEngine(folder, command)
    finally:
        command.send_signal(signal.SIGTERM)
        command.wait(60)


def ask(replica: ReplicaReport, content: str) -> None:
    body = {
        "messages": [{"role": "user", "content": content}],
        "max_tokens": 60,
        "ignore_eos": True,
        "temperature": 0,
    }
    url = f"{replica.base_url}/chat/completions"
    assert httpx2.post(url, json=body, timeout=60, trust_env=False).status_code == 200


def earlier_days(now: float) -> SpeculationRecord:
    """A record of quick decoding without drafts, and of too few samples with the draft model."""
    evidence = SpeculationEvidence()
    for _ in range(2 * MIN_SAMPLES):
        plain = SpeculationSample(running=1, tokens=100_000, decode_s=5.0)
        evidence.add(NO_SPECULATION, plain, now)
    for _ in range(int(MIN_SAMPLES) - 2):
        drafted = SpeculationSample(
            running=1, tokens=60, decode_s=1.0, drafts=30, draft_tokens=90, accepted=30
        )
        evidence.add(DRAFTED, drafted, now)
    choice = SpeculationChoice(setting=DRAFTED, reason="it is tried first", since=now)
    return SpeculationRecord(evidence=evidence, choice=choice)


def test_a_draft_model_that_does_not_pay_is_given_up_at_the_next_rolling_change(tmp_path: Path):
    with running_engine(tmp_path, earlier_days(tmp_path.stat().st_mtime)) as engine:
        replica = engine.ready()
        assert replica.speculation == DRAFTED  # its speed is not known well enough
        assert "--spec-draft-model" in psutil.Process(replica.pid).cmdline()
        until = time.monotonic() + _PATIENCE_S
        while replica.speculation == DRAFTED:
            assert time.monotonic() < until
            for number in range(16):  # the advisor reads the engine's counters each 5 s
                ask(replica, f"Which plans are there? I ask for the {number}th time.")
                time.sleep(0.7)
            replica = engine.change(replica)
        plain_line = psutil.Process(replica.pid).cmdline()
        given_up = engine.choice()
        last = engine.change(replica)
        last_line = psutil.Process(last.pid).cmdline()

    assert (replica.speculation, last.speculation) == (NO_SPECULATION, "ngram:3")
    assert given_up is not None
    assert f"{DRAFTED} did not pay" in given_up.reason
    assert "--spec-type" not in plain_line
    assert "ngram-simple" in last_line
