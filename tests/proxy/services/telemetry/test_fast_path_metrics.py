from prometheus_client import CollectorRegistry

from proxy.records.receipt import Receipt, ServedBy
from proxy.services.telemetry.fast_path_metrics import FastPathMetrics
from tests.fakes.receipts import a_receipt

CHAT = {"team": "acme", "feature": "chat"}


def samples_of(*receipts: Receipt) -> dict[tuple[str, str, str], float]:
    """The counters of one process that saw these, by name, feature and part."""
    metrics = FastPathMetrics(str.title)
    registry = CollectorRegistry()
    registry.register(metrics)
    for receipt in receipts:
        metrics.observe(receipt)
    return {
        (sample.name, sample.labels["feature"], sample.labels["part"]): sample.value
        for metric in registry.collect()
        for sample in metric.samples
    }


def test_calls_and_money_are_counted_by_part_gains_apart_from_costs() -> None:
    small = {**CHAT, "served_by": ServedBy.SMALL}
    samples = samples_of(
        a_receipt(1, **CHAT, served_by=ServedBy.CACHE, fast_path_nanos=3 * 10**9),
        a_receipt(2, **small, fast_path_nanos=10**9),
        a_receipt(3, **small, fast_path_nanos=-2 * 10**9, final=False),
        a_receipt(4, **CHAT, fast_path_nanos=-5 * 10**9),
        a_receipt(5, **CHAT, served_by=ServedBy.LARGE),
    )

    assert samples == {
        ("thriftgate_fast_path_calls_total", "chat", "cache"): 1,
        ("thriftgate_fast_path_calls_total", "chat", "small"): 1,
        ("thriftgate_fast_path_calls_total", "chat", "checks"): 1,
        ("thriftgate_fast_path_calls_total", "chat", "large"): 1,
        ("thriftgate_fast_path_gained_usd_total", "chat", "cache"): 3,
        ("thriftgate_fast_path_gained_usd_total", "chat", "small"): 1,
        ("thriftgate_fast_path_gained_usd_total", "chat", "checks"): 0,
        ("thriftgate_fast_path_gained_usd_total", "chat", "large"): 0,
        ("thriftgate_fast_path_paid_usd_total", "chat", "cache"): 0,
        ("thriftgate_fast_path_paid_usd_total", "chat", "small"): 2,
        ("thriftgate_fast_path_paid_usd_total", "chat", "checks"): 5,
        ("thriftgate_fast_path_paid_usd_total", "chat", "large"): 0,
    }


def test_drafts_are_counted_though_they_are_no_last_attempts() -> None:
    draft = a_receipt(1, **CHAT, served_by=ServedBy.DRAFT, fast_path_nanos=-(10**9), final=False)
    samples = samples_of(draft)

    assert samples["thriftgate_fast_path_calls_total", "chat", "draft"] == 1
    assert samples["thriftgate_fast_path_paid_usd_total", "chat", "draft"] == 1


def test_calls_without_the_fast_path_have_no_series() -> None:
    assert samples_of(a_receipt(1, **CHAT)) == {}


def test_features_beyond_the_bound_share_one_series() -> None:
    hits = [
        a_receipt(n, team="acme", feature=f"f{n}", served_by=ServedBy.CACHE, fast_path_nanos=1)
        for n in range(101)
    ]

    assert samples_of(*hits)["thriftgate_fast_path_calls_total", "other", "cache"] == 1
