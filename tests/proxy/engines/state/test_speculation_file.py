"""The record of a profile's speculation, and the readings that it grows by."""

from dataclasses import replace

from proxy.engines.metrics.metrics_page import EngineMetrics
from proxy.engines.profiles import KVDtype, SpeculativeMethod
from proxy.engines.speculation.auto_choice import SpeculationChoice, SpeculationRecord
from proxy.engines.state.replica_report import ProcessState, ReplicaReport
from proxy.engines.state.speculation_file import (
    SpeculationRecorder,
    engine_counters,
    read_record,
    resolve_auto,
    write_record,
)
from tests.fakes.engine_profiles import a_profile

NOW = 1_790_000_000.0
REPORT = ReplicaReport(
    name="8000",
    base_url="http://127.0.0.1:8000/v1",
    metrics_url="",
    state=ProcessState.READY,
    since=NOW,
    pid=7,
    speculation="ngram:2",
)


HOUSE = a_profile("")


def page(tokens, decode_s=1.0, **values):
    return EngineMetrics(
        values={"generation_tokens": tokens, "decode_seconds_total": decode_s, **values}
    )


def test_a_record_is_read_as_it_was_written(tmp_path):
    record = SpeculationRecord(choice=SpeculationChoice(setting="none", reason="r", since=NOW))
    write_record(tmp_path / "new", record)

    assert read_record(tmp_path / "new", HOUSE).choice == record.choice
    assert read_record(tmp_path, HOUSE).choice is None


def test_a_folder_that_cannot_be_written_is_logged(tmp_path, caplog):
    (tmp_path / "file").write_text("")
    write_record(tmp_path / "file" / "below", SpeculationRecord())

    assert "cannot be written" in caplog.text


def test_auto_is_resolved_and_the_choice_kept():
    record = SpeculationRecord()
    auto = resolve_auto(a_profile('speculative = "auto"'), record, NOW)

    assert auto.speculation is not None
    assert auto.speculation.method is SpeculativeMethod.NGRAM
    assert record.choice is not None
    fixed = a_profile('speculative = { method = "mtp" }')
    assert resolve_auto(fixed, record, NOW) is fixed


def test_counters_need_output_and_decode_time():
    assert engine_counters(EngineMetrics(values={"generation_tokens": 1.0})) is None
    counters = engine_counters(page(9.0, spec_drafts=4.0))

    assert counters is not None
    assert (counters.tokens, counters.drafts) == (9.0, 4.0)


def test_two_readings_of_one_process_make_a_sample_and_a_new_process_none():
    recorder = SpeculationRecorder(SpeculationRecord())
    recorder.note([REPORT], {"8000": page(100.0, 1.0)}, NOW)
    recorder.note([REPORT], {"8000": page(600.0, 11.0)}, NOW + 5)
    recorder.note([replace(REPORT, pid=8)], {"8000": page(700.0, 12.0)}, NOW + 10)
    recorder.note([REPORT], {}, NOW + 15)

    ((sequences, band),) = recorder.record.evidence.settings["ngram:2"].bands.items()
    assert (sequences, band.tokens, band.decode_s, band.samples) == (2, 500.0, 10.0, 1)


def test_preemptions_between_readings_of_one_process_are_kept_by_the_format_of_the_cache():
    recorder = SpeculationRecorder(SpeculationRecord())

    def read(preemptions: float, calls: float, now: float, pid: int = 7) -> None:
        values = {"running": 2.0, "preemptions": preemptions}
        made = EngineMetrics(values=values, histograms={"queue_seconds": (1.0, calls)})
        recorder.note([replace(REPORT, pid=pid, kv_dtype="auto")], {"8000": made}, now)

    read(5.0, 100.0, NOW)
    read(25.0, 600.0, NOW)
    read(2.0, 10.0, NOW, pid=8)
    sums = recorder.record.kv_sums["auto"]

    assert (sums.preemptions, sums.calls, sums.readings) == (20.0, 500.0, 3.0)


def test_a_replica_of_the_old_model_gives_no_evidence_of_the_new_one_in_a_rolling_change():
    auto = a_profile('speculative = "auto"')
    recorder = SpeculationRecorder(SpeculationRecord())
    resolve_auto(auto, recorder.record, NOW)
    old, new = (
        replace(REPORT, name=name, weights=(model, ""), kv_dtype="auto")
        for name, model in (("8000", "m.gguf"), ("8001", "next.gguf"))
    )
    for seconds in (0, 5):
        recorder.note([old], {"8000": page(100.0 + seconds, 1.0 + seconds)}, NOW + seconds)
    assert recorder.record.evidence.settings

    resolve_auto(replace(auto, model="next.gguf"), recorder.record, NOW)
    for seconds in (10, 15):
        recorder.note([old], {"8000": page(100.0 + seconds, 1.0 + seconds)}, NOW + seconds)
    assert not recorder.record.evidence.settings
    for seconds in (20, 25):
        recorder.note([new], {"8001": page(100.0 + seconds, 1.0 + seconds)}, NOW + seconds)
    assert recorder.record.evidence.settings


def test_another_kv_format_begins_evidence_anew_and_keeps_the_sums_of_both_formats():
    profile = a_profile("")
    recorder = SpeculationRecorder(SpeculationRecord())
    resolve_auto(profile, recorder.record, NOW)
    old = replace(REPORT, weights=("m.gguf", ""), kv_dtype="auto")
    new = replace(old, name="8001", kv_dtype="fp8")
    pages = [page(100.0 + 5 * n, 1.0 + 5 * n, running=1.0) for n in range(4)]
    recorder.note([old], {"8000": pages[0]}, NOW)
    resolve_auto(replace(profile, kv_dtype=KVDtype.FP8), recorder.record, NOW)
    recorder.note([old], {"8000": pages[1]}, NOW + 5)
    assert not recorder.record.evidence.settings  # of the old format
    for number in (2, 3):
        recorder.note([new], {"8001": pages[number]}, NOW + 5 * number)

    (band,) = recorder.record.evidence.settings["ngram:2"].bands.values()
    assert band.samples == 1
    assert set(recorder.record.kv_sums) == {"auto", "fp8"}
    assert recorder.record.kv_sums["auto"].tokens == 5.0
