"""The advisor's figures as metrics."""

from pathlib import Path

from prometheus_client import CollectorRegistry, generate_latest

from proxy.engines.metrics.kv_pressure import KVSums
from proxy.engines.profiles import EngineProfile
from proxy.engines.speculation.auto_choice import SpeculationRecord
from proxy.engines.state.speculation_file import write_record
from proxy.services.engines.speculation_metrics import SpeculationCollector
from tests.fakes.engine_profiles import a_profile
from tests.proxy.engines.speculation.test_advice import add_samples

HOUSE = a_profile('gpu = "H100"')


def page(collector: SpeculationCollector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def collector(folder: Path, profile: EngineProfile = HOUSE) -> SpeculationCollector:
    return SpeculationCollector(folder, lambda: {profile.name: profile})


def test_without_evidence_nothing_is_recommended(tmp_path: Path) -> None:
    assert "engine=" not in page(collector(tmp_path))


def test_the_recommended_method_and_the_measured_gain_are_metrics(tmp_path: Path) -> None:
    metrics = collector(tmp_path)
    page(metrics)
    good = SpeculationRecord(evidence=add_samples(draft_model=(180, 0.7, 1), none=(100, None, 1)))
    write_record(tmp_path / "engines/house", good)
    metrics_page = page(metrics)

    prefix = "thriftgate_engine_speculation_"
    assert (
        f'{prefix}recommended{{engine="house",method="draft_model",tokens="3"}} 1.0' in metrics_page
    )
    assert f'{prefix}speed_up{{engine="house",setting="draft_model:3"}} 1.8' in metrics_page
    assert f'{prefix}acceptance{{engine="house",setting="draft_model:3"}} 0.7' in metrics_page
    assert f'{prefix}tokens_per_step{{engine="house",setting="draft_model:3"}} 3.1' in metrics_page


def test_where_no_method_pays_none_is_recommended(tmp_path: Path) -> None:
    poor = SpeculationRecord(evidence=add_samples(draft_model=(50, 0.05, 1), none=(100, None, 1)))
    write_record(tmp_path / "engines/house", poor)

    assert 'engine="house",method="none",tokens="0"} 1.0' in page(collector(tmp_path))


def test_the_advice_of_a_profile_is_also_on_its_kv_cache(tmp_path: Path) -> None:
    pressed = SpeculationRecord(kv_sums={"auto": KVSums(calls=1_000, preemptions=40)})
    write_record(tmp_path / "engines/house", pressed)
    advice = collector(tmp_path).advice()["house"]

    assert "4.0% of calls were preempted" in advice.kv_cache
    assert advice.speculation.recommended == ""
