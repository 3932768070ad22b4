"""Evidence of attached engines: kept by one gateway of a folder, and shown by the advisor."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from proxy.cli.engines.engines import engines
from proxy.engines.profiles import EngineProfile
from proxy.engines.speculation.advice import advise
from proxy.engines.speculation.auto_choice import SpeculationRecord
from proxy.engines.state.speculation_file import read_record, write_record
from proxy.engines.state.state_file import locked_profile
from proxy.services.engines.attached_evidence import WRITE_INTERVAL_S, AttachedEvidence
from proxy.services.engines.replica_monitor import ReplicaMonitor
from proxy.services.engines.speculation_metrics import SpeculationCollector
from proxy.settings import Settings
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.engine_pages import PlayedPages
from tests.fakes.engine_profiles import a_profile
from tests.fakes.virtual_clock import run_in_virtual_time
from tests.proxy.engines.speculation.test_advice import add_samples

NOW = 1_790_000_000.0
TABLE = 'replicas = ["http://a:1/v1", "http://b:2/v1"]\nserved_name = "m"\ngpu = "H100"\n'
NGRAM = 'speculative = { method = "ngram", tokens = 3 }\n'
ATTACHED = a_profile(TABLE + NGRAM)


@dataclass
class AttachedEngine:
    """An engine that decodes one call for ever; with drafts, half of their tokens are accepted."""

    tokens_per_s: float
    speculates: bool = False
    made_s: float = 0.0
    preemptions: float = 0.0

    def page(self, prefix: str = "vllm") -> bytes:
        self.made_s += 1
        drafts = 25.0 * self.made_s
        figures = {
            "num_requests_running": 1.0,
            "kv_cache_usage_perc": 0.95,
            "num_requests_waiting": 1.0,
            "generation_tokens_total": self.tokens_per_s * self.made_s,
            "request_decode_time_seconds_sum": self.made_s,
            "request_decode_time_seconds_count": self.made_s,
            "request_queue_time_seconds_sum": 0.0,
            "request_queue_time_seconds_count": 10 * self.made_s,
            "num_preemptions_total": self.preemptions * self.made_s,
        }
        if self.speculates:
            figures["spec_decode_num_drafts_total"] = drafts
            figures["spec_decode_num_draft_tokens_total"] = 3 * drafts
            figures["spec_decode_num_accepted_tokens_total"] = 1.5 * drafts
        return "".join(f"{prefix}:{name} {value}\n" for name, value in figures.items()).encode()


class PlayedEngines(PlayedPages):
    """Pages of engines that work on: the first speculates, the second does not."""

    def __init__(self) -> None:
        super().__init__()
        self.engines = {
            "http://a:1/metrics": AttachedEngine(180.0, speculates=True, preemptions=1.0),
            "http://b:2/metrics": AttachedEngine(100.0),
        }

    async def fetch(self, url: str, key_env: str = "") -> bytes:
        self.answers[url] = self.engines[url].page()
        return await super().fetch(url, key_env)


Story = Callable[[Callable[[EngineProfile], "PlayedGateway"]], Coroutine[Any, Any, None]]


class PlayedGateway:
    """The parts of a gateway that read engines and keep evidence."""

    def __init__(self, folder: Path, profile: EngineProfile) -> None:
        ticks = asyncio.get_running_loop().time
        self.pages = PlayedEngines()
        self.monitor: ReplicaMonitor = self.pages.monitor(profile)
        self.evidence = AttachedEvidence(
            folder, lambda: self.monitor.profiles, lambda: NOW + ticks()
        )
        self.monitor.listen(self.evidence.note)
        works, loop = (self.monitor.run(), self.evidence.run()), asyncio.get_running_loop()
        self._tasks = [loop.create_task(work) for work in works]

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the profile's evidence."""
    return tmp_path / "engines" / "house"


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Story], None]:
    """Runs a story of gateways on one folder, in virtual time."""

    def run(story: Story) -> None:
        run_in_virtual_time(lambda: story(lambda profile: PlayedGateway(tmp_path, profile)))

    return run


def drafts(folder: Path, setting: str = "ngram:3", profile: EngineProfile = ATTACHED) -> float:
    """Drafts in the record."""
    setting_evidence = read_record(folder, profile).evidence.settings.get(setting)
    return 0.0 if setting_evidence is None else setting_evidence.totals().drafts


async def serve_for(seconds: float, gateway: PlayedGateway) -> None:
    await asyncio.sleep(seconds)
    await gateway.end()


def test_advice_on_an_attached_engine_has_its_acceptance_and_its_measured_speed_up(
    play, tmp_path, folder
):
    async def story(start):
        await serve_for(100, start(ATTACHED))

    play(story)
    file = tmp_path / "engines.toml"
    file.write_text('[engines.house]\nengine = "vllm"\nmodel = "m.gguf"\n' + TABLE + NGRAM)
    runner = CommandRunner(tmp_path, NOW)
    runner.open().close(5)
    group = lambda terminal: engines(terminal, lambda: Settings(engines=file, folder=tmp_path))  # noqa: E731
    document = json.loads(runner.said(group, "advise", "house", "--json"))

    ran = next(option for option in document["options"] if option["setting"] == "ngram:3")
    assert ran["drafts"] > 1_000
    assert ran["acceptance_rate"] == pytest.approx(0.5, abs=0.01)
    assert ran["speed_up_measured"][1] == pytest.approx(1.8, abs=0.05)
    assert document["recommended"].startswith("ngram:")
    assert "The KV cache is too small" in document["kv_cache"]["advice"]
    gauges = SpeculationCollector(tmp_path, lambda: {"house": ATTACHED}).advice()["house"]
    assert gauges.speculation.recommended == document["recommended"]


def test_a_sample_is_five_seconds_of_one_replica(play, folder):
    async def story(start):
        await serve_for(61, start(ATTACHED))

    play(story)
    (band,) = read_record(folder, ATTACHED).evidence.settings["none"].bands.values()

    assert 10 <= band.samples <= 12
    assert band.decode_s / band.samples == pytest.approx(5.0, abs=0.6)


def test_a_second_gateway_of_a_folder_goes_on_with_the_evidence_of_the_first(play, folder):
    counts = []

    async def story(start):
        first = start(ATTACHED)
        await asyncio.sleep(200)
        second = start(ATTACHED)
        await asyncio.sleep(100)
        await first.end()
        counts.append(drafts(folder))
        await serve_for(100, second)
        counts.append(drafts(folder))

    play(story)

    assert 6_300 < counts[0] <= 7_000  # 25 a second, of which older ones weigh less
    assert counts[0] + 1_000 < counts[1]


def test_a_restart_of_an_engine_makes_no_sample(play, folder):
    async def story(start):
        gateway = start(ATTACHED)
        for _ in range(20):
            await asyncio.sleep(4)  # shorter than a sample
            for engine in gateway.pages.engines.values():
                engine.made_s = 0.0
        await gateway.end()

    play(story)

    assert read_record(folder, ATTACHED).evidence.settings == {}


def test_drafts_of_a_method_that_the_profile_does_not_name_are_asked_for(play, folder):
    unnamed = a_profile(TABLE)

    async def story(start):
        await serve_for(100, start(unnamed))

    play(story)
    evidence = read_record(folder, unnamed).evidence

    assert set(evidence.settings) == {"unknown", "none"}
    assert "write the method as speculative" in advise(unnamed, evidence).reason
    assert "write the method" not in advise(ATTACHED, evidence).reason


@pytest.mark.parametrize("engine", ["sglang", "served"])
def test_other_engines_have_no_record_kept_by_the_gateway(play, folder, engine):
    profile = a_profile("") if engine == "served" else a_profile(TABLE, engine)

    async def story(start):
        gateway = start(profile)
        gateway.pages.engines["http://127.0.0.1:8000/metrics"] = AttachedEngine(10.0)
        await serve_for(40, gateway)

    play(story)

    assert not (folder / "speculation.json").exists()


def test_the_record_of_a_supervisor_is_not_overwritten(play, folder):
    record = SpeculationRecord(evidence=add_samples(ngram=(150, 0.6, 1)))
    write_record(folder, record)

    async def story(start):
        with locked_profile(folder):
            await serve_for(70, start(ATTACHED))

    play(story)

    stored = msgspec.json.decode((folder / "speculation.json").read_bytes())
    assert stored == msgspec.json.decode(msgspec.json.encode(record))


def test_evidence_begins_anew_when_the_model_of_an_attached_profile_changes(play, folder):
    result = []
    changed = a_profile(TABLE.replace("H100", "A100") + NGRAM)

    async def story(start):
        gateway = start(ATTACHED)
        await asyncio.sleep(2 * WRITE_INTERVAL_S + 5)
        result.append(drafts(folder))
        gateway.monitor.update({"house": changed})
        await serve_for(2 * WRITE_INTERVAL_S, gateway)
        result.append(drafts(folder, profile=changed))

    play(story)

    assert result[0] > 1_000
    assert 0 < result[1] < result[0]


def test_record_of_a_removed_profile_is_written_no_more(play, folder):
    async def story(start):
        first = start(ATTACHED)
        await asyncio.sleep(5)
        first.monitor.update({})
        await asyncio.sleep(WRITE_INTERVAL_S)
        await serve_for(60, start(ATTACHED))
        await first.end()

    play(story)

    assert drafts(folder) > 1_000


def test_a_folder_that_cannot_be_written_is_logged_once(play, tmp_path, caplog):
    (tmp_path / "engines").write_text("")

    async def story(start):
        await serve_for(100, start(ATTACHED))

    play(story)

    assert caplog.text.count("cannot be written") == 1
