"""Verdicts on another number format of the KV cache, from the sums before and after it."""

from dataclasses import replace

import pytest

from proxy.engines.kv_comparison import ComparisonVerdict, KVComparison, compare_formats
from proxy.engines.kv_pressure import KVPressure, KVSums
from proxy.engines.metrics_page import EngineMetrics
from proxy.engines.replica_report import ProcessState, ReplicaReport
from proxy.engines.speculation.auto_choice import SpeculationRecord
from proxy.engines.speculation_file import SpeculationRecorder, read_record, write_record
from tests.fakes.engine_profiles import a_profile

NOW = 1_790_000_000.0
READING_S = 5.0
REPLICA = ReplicaReport(
    name="8000",
    base_url="http://127.0.0.1:8000/v1",
    metrics_url="",
    state=ProcessState.READY,
    since=NOW,
    pid=1,
    speculation="none",
)


class BusyReplica:
    """A replica whose counters grow by the same every reading, and that restarts to change."""

    def __init__(self) -> None:
        self.recorder = SpeculationRecorder(SpeculationRecord())
        self.now, self.pid = NOW, 1

    @property
    def kv(self) -> KVPressure:
        return self.recorder.record.kv

    def run(
        self,
        kv_dtype: str,
        *,
        preemptions: float = 0.0,
        calls: float = 20.0,
        tokens_per_s: float = 50.0,
        waiting: float = 0.0,
        readings: int = 61,
        running: float = 8.0,
    ) -> "BusyReplica":
        """Serve for some readings after a start; growth is per reading."""
        self.pid += 1
        report = replace(REPLICA, pid=self.pid, kv_dtype=kv_dtype)
        for number in range(readings):
            page = EngineMetrics(
                values={
                    "running": running,
                    "waiting": waiting,
                    "kv_usage": 0.95,
                    "preemptions": preemptions * number,
                    "generation_tokens": 40.0 * tokens_per_s * number,
                },
                histograms={
                    "queue_seconds": (1.0, calls * number),
                    "decode_seconds": (40.0 * number, calls * number),
                },
            )
            self.now += READING_S
            self.recorder.note([report], {report.name: page}, self.now)
        return self


def compare_record(kv_dtype: str, replica: BusyReplica) -> KVComparison:
    found = compare_formats(kv_dtype, replica.kv)
    assert found is not None
    return found


def test_fp8_that_ends_preemptions_paid(tmp_path):
    replica = BusyReplica().run("auto", preemptions=1.0).run("fp8", preemptions=0.0)
    write_record(tmp_path, replica.recorder.record)
    found = compare_formats("fp8", read_record(tmp_path, a_profile('kv_dtype = "fp8"')).kv)

    assert found is not None
    assert (found.before.kv_dtype, found.after.kv_dtype) == ("auto", "fp8")
    assert found.before.preempted_share == pytest.approx(0.05)
    assert found.after.preempted_share == 0.0
    assert found.verdict is ComparisonVerdict.PAID
    assert found.reasons == ("fewer calls are preempted",)


def test_a_return_to_more_preemptions_did_not_pay():
    replica = BusyReplica().run("fp8", preemptions=0.0).run("auto", preemptions=1.0)
    found = compare_record("auto", replica)

    assert (found.before.kv_dtype, found.after.kv_dtype) == ("fp8", "auto")
    assert found.verdict is ComparisonVerdict.DID_NOT_PAY
    assert found.reasons == ("more calls are preempted",)


def test_calls_that_wait_less_often_are_a_reason():
    found = compare_record("fp8", BusyReplica().run("auto", waiting=3.0).run("fp8"))

    assert found.verdict is ComparisonVerdict.PAID
    assert found.reasons == ("calls wait for room less often",)


def test_fp8_that_only_slows_sequences_down_did_not_pay():
    found = compare_record("fp8", BusyReplica().run("auto").run("fp8", tokens_per_s=40.0))

    assert found.speed is not None
    assert (found.speed.setting, found.speed.sequences) == ("none", 8)
    assert (found.speed.before.value, found.speed.after.value) == pytest.approx((50.0, 40.0))
    assert found.verdict is ComparisonVerdict.DID_NOT_PAY
    assert found.reasons == ("a sequence is slower",)


def test_fewer_preemptions_of_slower_sequences_are_mixed():
    replica = BusyReplica().run("auto", preemptions=1.0).run("fp8", tokens_per_s=40.0)

    assert compare_record("fp8", replica).verdict is ComparisonVerdict.MIXED


def test_speeds_at_other_numbers_of_sequences_are_not_compared():
    found = compare_record(
        "fp8", BusyReplica().run("auto").run("fp8", running=30.0, tokens_per_s=20.0)
    )

    assert found.speed is None
    assert found.verdict is ComparisonVerdict.NO_DIFFERENCE


@pytest.mark.parametrize("readings", [(61, 8), (8, 61)], ids=["few after", "few before"])
def test_no_verdict_without_enough_data_on_both_sides(readings):
    replica = BusyReplica().run("auto", preemptions=1.0, readings=readings[0])
    found = compare_record("fp8", replica.run("fp8", readings=readings[1]))

    assert found.verdict is ComparisonVerdict.NOT_ENOUGH_DATA
    assert found.reasons == ()


def test_preemptions_that_fell_with_the_load_are_no_gain():
    found = compare_record("fp8", BusyReplica().run("auto", preemptions=1.0).run("fp8", calls=5.0))

    assert found.verdict is ComparisonVerdict.OTHER_LOAD
    assert found.reasons == ("fewer calls are preempted",)


def test_fewer_preemptions_at_a_higher_load_paid():
    found = compare_record("fp8", BusyReplica().run("auto", preemptions=1.0).run("fp8", calls=60.0))

    assert found.verdict is ComparisonVerdict.PAID


def test_a_difference_that_chance_explains_is_none():
    replica = BusyReplica().run("auto", preemptions=0.4, calls=4.0)
    found = compare_record("fp8", replica.run("fp8", preemptions=0.3, calls=4.0))

    assert found.verdict is ComparisonVerdict.NO_DIFFERENCE


def test_an_engine_that_counts_no_preemptions_is_judged_by_its_speeds():
    before, after = (
        BusyReplica().run("auto", tokens_per_s=speed).kv.speeds for speed in (50.0, 60.0)
    )
    pressure = KVPressure(
        kv_dtype="int8",
        readings=60,
        speeds=after,
        previous=KVSums(kv_dtype="auto", readings=60, speeds=before),
    )
    found = compare_formats("int8", pressure)

    assert found is not None
    assert found.verdict is ComparisonVerdict.PAID
    assert found.reasons == ("a sequence gets more tokens/s",)


def test_a_single_format_has_nothing_to_be_compared_with():
    replica = BusyReplica().run("auto", preemptions=1.0)

    assert compare_formats("auto", replica.kv) is None
    assert compare_formats("fp8", replica.kv) is None
    assert compare_formats("int4", replica.run("fp8").kv) is None


def test_replicas_of_both_formats_in_a_rolling_change_keep_their_own_sums():
    replica = BusyReplica().run("auto", preemptions=1.0)
    for _ in range(20):
        replica.run("fp8", readings=4).run("auto", preemptions=1.0, readings=4)
    found = compare_record("fp8", replica)  # the last reading was of the format that goes

    assert replica.kv.kv_dtype == "auto"
    assert (found.before.kv_dtype, found.after.kv_dtype) == ("auto", "fp8")
    assert (found.before.preempted_share, found.after.preempted_share) == pytest.approx((0.05, 0.0))
    assert found.verdict is ComparisonVerdict.PAID
