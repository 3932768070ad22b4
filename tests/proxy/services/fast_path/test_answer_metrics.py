from typing import Any

from proxy.calls.answer_cache_port import CacheResult
from proxy.fast_path.answer_cache.answer_memory import AnswerMemory
from proxy.services.fast_path.answer_metrics import AnswerMetrics
from tests.proxy.fast_path.answer_cache.test_cached_answer import ANSWER


def samples(metrics: AnswerMetrics) -> list[tuple[str, dict[str, str], Any]]:
    return [
        (sample.name.removeprefix("thriftgate_answer_cache_"), sample.labels, sample.value)
        for metric in metrics.collect()
        for sample in metric.samples
    ]


def test_metrics_name_the_team_and_feature_and_tell_what_memory_holds():
    memory = AnswerMemory(2**20)
    memory.put(ANSWER)
    metrics = AnswerMetrics(memory, {"team_1": "acme"}.__getitem__)
    metrics.count(("team_1", "faq"), CacheResult.SHARED, 2_000_000_000)
    metrics.note_kept("")
    metrics.note_kept("unfinished")

    labels = {"team": "acme", "feature": "faq"}
    assert samples(metrics) == [
        ("calls_total", {**labels, "result": "shared"}, 1),
        ("saved_usd_total", labels, 2.0),
        ("not_kept_total", {"reason": "unfinished"}, 1),
        ("answers", {}, 1),
        ("bytes", {}, ANSWER.size_bytes),
    ]


def test_features_beyond_the_first_hundred_share_one_series():
    metrics = AnswerMetrics(AnswerMemory(2**20), lambda team: team)
    for number in range(150):
        metrics.count(("team_1", str(number)), CacheResult.MISS, None)
    calls = [sample for sample in samples(metrics) if sample[0] == "calls_total"]

    assert len(calls) == 101
    assert sum(value for *_, value in calls) == 150
