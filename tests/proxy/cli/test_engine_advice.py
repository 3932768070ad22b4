"""``thriftgate engine advise`` and what ``engine plan`` shows of ``auto``."""

import json

import msgspec
import pytest

from proxy.cli.engines import engines
from proxy.engines.decode_speed import SpeedSums
from proxy.engines.kv_pressure import KVPressure, KVSums
from proxy.engines.speculation.auto_choice import SpeculationRecord
from proxy.engines.speculation_file import write_record
from proxy.settings import Settings
from slo.usage import Usage
from tests.fakes.admission_harness import NOW
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.receipts import a_receipt
from tests.proxy.engines.speculation.test_advice import add_samples

PROFILES = '[engines.house]\nengine = "vllm"\nmodel = "org/m"\nspeculative = "auto"\ngpu = "H100"\n'


@pytest.fixture
def runner(tmp_path):
    return CommandRunner(tmp_path, NOW)


@pytest.fixture
def group(tmp_path):
    file = tmp_path / "engines.toml"
    file.write_text(PROFILES)
    return lambda terminal: engines(terminal, lambda: Settings(engines=file, folder=tmp_path))


@pytest.fixture
def speculation_record(tmp_path):
    record = SpeculationRecord(evidence=add_samples(ngram=(150, 0.6, 1), none=(100, None, 1)))
    write_record(tmp_path / "engines/house", record)


def test_advice_without_data_says_so(runner, group):
    runner.open().close(5)
    said = runner.said(group, "advise", "house")

    assert "house: not enough data: a method needs 200 drafts." in said


@pytest.mark.parametrize("engine", ["sglang", "tensorrt-llm"])
def test_an_attached_engine_that_counts_too_little_is_said_to_get_no_advice(
    runner, tmp_path, engine
):
    runner.open().close(5)
    file = tmp_path / "attached.toml"
    replicas = '["http://gpu:8000/v1"]'
    file.write_text(
        f'[engines.house]\nengine = "{engine}"\nserved_name = "m"\nreplicas = {replicas}\n'
    )
    attached = lambda terminal: engines(terminal, lambda: Settings(engines=file, folder=tmp_path))  # noqa: E731
    said = " ".join(runner.said(attached, "advise", "house").split())
    found = json.loads(runner.said(attached, "advise", "house", "--json"))

    assert said.startswith(f"house: no advice, and none will come: {engine} counts no")
    assert "accepted tokens by position on its metrics page" in said
    assert "sequences at once" not in said
    assert (found["recommended"], found["options"]) == ("", [])
    assert found["reason"].endswith("only vllm and llamacpp are measured")


def test_advice_shows_what_is_expected_what_was_measured_and_features(
    runner, group, speculation_record
):
    calls = [
        a_receipt(
            number,
            upstream="house:0",
            feature="chat",
            draft_tokens=30,
            accepted_tokens=12,
        )
        for number in range(20)
    ]
    runner.keep(*calls)
    found = json.loads(runner.said(group, "advise", "house", "--json", "--days", "10000"))
    shown = runner.said(group, "advise", "house")

    assert found["recommended"].startswith("ngram:")
    assert found["options"][-1]["setting"] == "none"
    (band,) = found["options"][0]["bands"]
    assert (band["sequences"], band["share"]) == ("1", 1.0)
    assert band["speed_up"][1] == pytest.approx(1.5, abs=0.01)
    assert "Measured, by sequences at once:" in shown
    ngram = next(each for each in found["options"] if each["setting"] == "ngram:3")
    assert ngram["speed_up_measured"][1] == pytest.approx(1.5, abs=0.01)
    assert "1.50x" in shown
    (feature,) = found["features"]
    assert (feature["feature"], feature["calls"], feature["accepted_share"]) == ("chat", 20, 0.4)


def test_each_feature_has_its_own_recommendation_expected_and_measured(tmp_path, runner):
    file = tmp_path / "engines.toml"
    setting = '{ method = "ngram", tokens = 3 }'
    file.write_text(PROFILES.replace('"auto"', setting))
    write_record(
        tmp_path / "engines/house", SpeculationRecord(evidence=add_samples(none=(100, None, 1)))
    )
    usage = Usage(input=10, output=200)
    made = [
        a_receipt(
            number,
            upstream="house:0",
            feature=feature,
            usage=usage,
            decode=200 / speed,
            draft_tokens=drafted,
            accepted_tokens=accepted,
        )
        for number, (feature, drafted, accepted, speed) in enumerate(
            [("edit", 180, 140, 160.0), ("edit", None, None, 100.0), ("poem", 300, 3, 80.0)] * 25
        )
    ]
    runner.keep(*made)
    both = lambda terminal: engines(terminal, lambda: Settings(engines=file, folder=tmp_path))  # noqa: E731
    found = json.loads(runner.said(both, "advise", "house", "--json", "--days", "10000"))
    edit, poem = found["features"]

    ran = next(each for each in edit["options"] if each["setting"] == "ngram:3")
    assert ran["speed_up_measured"] == [1.6, 1.6, 1.6]
    assert ran["speed_up_expected"][1] == pytest.approx(3.25, abs=0.3)
    assert ran["break_even_batch"] > 100
    assert edit["recommended"].startswith("ngram:")
    assert (edit["calls"], edit["calls_without_drafts"]) == (25, 25)
    assert poem["recommended"] == ""
    assert poem["reason"].startswith("not measured yet: ngram:3 needs")
    assert "1.60x" in runner.said(both, "advise", "house", "--days", "10000")


def test_answers_are_replayed_for_ngrams(runner, group, tmp_path):
    runner.open().close(5)
    file = tmp_path / "answers.jsonl"
    text = " ".join(f"word{n}" for n in range(60))
    file.write_bytes(msgspec.json.encode({"prompt": text, "answer": text}) + b"\n")
    found = json.loads(runner.said(group, "advise", "house", "--replay", str(file), "--json"))
    by_depth = {each["tokens"]: each["tokens_per_step"] for each in found["replay"]}

    assert by_depth[8] > by_depth[2] > 2
    file.write_text("{}\n")
    assert "each line has to be" in runner.error_of(group, "advise", "house", "--replay", str(file))
    gone = str(tmp_path / "gone")
    assert "cannot be read" in runner.error_of(group, "advise", "house", "--replay", gone)


def test_plan_shows_what_auto_takes_and_why(runner, group, speculation_record):
    said = runner.said(group, "plan", "house")

    assert '"method": "ngram"' in said
    assert "Speculation is auto, and the next start takes: ngram:" in said


def test_plan_of_auto_without_data_tries_the_first_method(runner, group):
    found = json.loads(runner.said(group, "plan", "house", "--json"))

    assert found["speculation_reason"] == "not enough data: ngram:3 is tried first"


def test_preemptions_are_shown_with_what_would_help(tmp_path, runner, group):
    pressed = SpeculationRecord(kv=KVPressure(kv_dtype="auto", calls=1_000, preemptions=40))
    write_record(tmp_path / "engines/house", pressed)
    runner.open().close(5)
    found = json.loads(runner.said(group, "advise", "house", "--json"))["kv_cache"]

    assert (found["kv_dtype"], found["preemptions"], found["preempted_share"]) == ("auto", 40, 0.04)
    assert 'Write kv_dtype = "fp8"' in found["advice"]
    assert "4.0% of calls were preempted" in runner.said(group, "advise", "house")


def test_a_change_of_the_kv_format_is_shown_before_and_after_with_its_verdict(
    tmp_path, runner, group
):
    before = KVSums(kv_dtype="fp8", calls=1_000, preemptions=2, readings=100)
    pressed = KVPressure(
        kv_dtype="auto", calls=1_000, preemptions=40, readings=100, starved=30, previous=before
    )
    write_record(tmp_path / "engines/house", SpeculationRecord(kv=pressed))
    runner.open().close(5)
    found = json.loads(runner.said(group, "advise", "house", "--json"))["kv_cache"]["comparison"]
    said = " ".join(runner.said(group, "advise", "house").split())

    assert (found["before"]["kv_dtype"], found["before"]["preempted_share"]) == ("fp8", 0.002)
    assert (found["after"]["kv_dtype"], found["after"]["starved_share"]) == ("auto", 0.3)
    assert (found["verdict"], found["after"]["tokens_per_s"]) == ("it did not pay", None)
    assert "KV cache fp8 → auto: preempted 0.2% → 4.0% of calls (1000 → 1000);" in said
    assert "It did not pay: more calls are preempted, calls wait for room more often." in said


def test_a_change_of_the_kv_format_with_few_calls_has_no_verdict(tmp_path, runner, group):
    pressed = KVPressure(kv_dtype="auto", calls=40, readings=5, previous=KVSums(kv_dtype="fp8"))
    write_record(tmp_path / "engines/house", SpeculationRecord(kv=pressed))
    runner.open().close(5)

    assert "Not enough data." in runner.said(group, "advise", "house")


def test_speeds_before_and_after_name_what_they_were_measured_with(tmp_path, runner, group):
    fast, slow = (
        {"none": {8: SpeedSums(samples=20, tokens=n, decode_s=10, rate_squares=n * n / 10)}}
        for n in (1_211, 808)
    )
    pressed = KVPressure(
        kv_dtype="auto",
        readings=40,
        speeds=fast,
        previous=KVSums(kv_dtype="fp8", readings=40, speeds=slow),
    )
    write_record(tmp_path / "engines/house", SpeculationRecord(kv=pressed))
    runner.open().close(5)
    said = " ".join(runner.said(group, "advise", "house").split())
    found = json.loads(runner.said(group, "advise", "house", "--json"))["kv_cache"]["comparison"]

    assert "tokens/s of a sequence 80.8 → 121.1 (speculation none, up to 8 at once)." in said
    assert "It paid: a sequence gets more tokens/s." in said
    assert found["speeds_with"] == {"speculation": "none", "sequences": 8}
    assert (found["before"]["tokens_per_s"], found["after"]["tokens_per_s"]) == (80.8, 121.1)


def test_advice_and_plan_print_the_benchmarks_of_other_techniques(runner, group):
    runner.open().close(5)
    command = "thriftgate bench latency http://127.0.0.1:8000/v1 --concurrency 1,8"
    found = json.loads(runner.said(group, "advise", "house", "--json"))["benchmarks"]
    planned = json.loads(runner.said(group, "plan", "house", "--json"))["techniques"]

    assert command in runner.said(group, "advise", "house")
    assert command in runner.said(group, "plan", "house")
    assert [each["technique"] for each in found] == ["prefix caching", "chunked prefill"]
    assert [each["technique"] for each in planned] == [
        "speculation: n-gram",
        *(each["technique"] for each in found),
    ]
