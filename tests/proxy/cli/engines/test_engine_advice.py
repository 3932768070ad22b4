"""``thriftgate engine advise`` and what ``engine plan`` shows of ``auto``."""

import json

import pytest
import typer

from proxy.cli.engines.engine_advice import speculation_by_feature
from proxy.cli.engines.engines import engines
from proxy.engines.metrics.kv_pressure import KVSums
from proxy.engines.speculation.advice import FeatureSpeculation
from proxy.engines.speculation.auto_choice import SpeculationRecord
from proxy.engines.state.speculation_file import write_record
from proxy.settings import Settings
from slo.usage import Usage
from tests.fakes.admission_harness import NOW
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.engine_profiles import a_profile
from tests.fakes.receipts import START, a_receipt, an_engine_receipt
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
    output = runner.said(group, "advise", "house")

    assert "house: not enough data: a method needs 200 drafts." in output


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
    output = " ".join(runner.said(attached, "advise", "house").split())
    document = json.loads(runner.said(attached, "advise", "house", "--json"))

    assert output.startswith(f"house: no advice, and none will come: {engine} counts no")
    assert "on its metrics page" in output
    assert "sequences at once" not in output
    assert (document["recommended"], document["options"]) == ("", [])
    assert document["reason"].endswith("only vllm and llamacpp are measured")


def test_advice_shows_measured_speed_ups_by_setting_band_and_feature(
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
    document = json.loads(runner.said(group, "advise", "house", "--json", "--days", "10000"))
    shown = runner.said(group, "advise", "house")

    assert document["recommended"].startswith("ngram:")
    assert document["options"][-1]["setting"] == "none"
    (band,) = document["options"][0]["bands"]
    assert (band["sequences"], band["share"]) == ("1", 1.0)
    assert band["speed_up"][1] == pytest.approx(1.5, abs=0.01)
    assert "Measured, by sequences at once:" in shown
    ngram = next(option for option in document["options"] if option["setting"] == "ngram:3")
    assert ngram["speed_up_measured"][1] == pytest.approx(1.5, abs=0.01)
    assert "1.50x" in shown
    (feature,) = document["features"]
    assert (feature["feature"], feature["calls"], feature["accepted_share"]) == ("chat", 20, 0.4)


def test_each_feature_has_its_own_recommendation(tmp_path, runner):
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
    document = json.loads(runner.said(both, "advise", "house", "--json", "--days", "10000"))
    edit, poem = document["features"]

    ran = next(option for option in edit["options"] if option["setting"] == "ngram:3")
    assert ran["speed_up_measured"] == [1.6, 1.6, 1.6]
    assert (ran["acceptance_rate"], ran["tokens_per_step"]) == (0.778, 3.33)
    assert edit["recommended"].startswith("ngram:")
    assert (edit["calls"], edit["calls_without_drafts"]) == (25, 25)
    assert poem["recommended"] == ""
    assert poem["reason"].startswith("not measured yet: ngram:3 needs")
    assert "1.60x" in runner.said(both, "advise", "house", "--days", "10000")


def test_calls_are_read_from_the_ledger_by_feature(tmp_path):
    runner = CommandRunner(tmp_path, START + 900)
    plain = {"draft_tokens": None, "accepted_tokens": None}
    runner.keep(
        *(an_engine_receipt(n, upstream="house:0", feature="chat") for n in range(1, 9)),
        *(an_engine_receipt(n, upstream="house:0", feature="chat", **plain) for n in (20, 21)),
        an_engine_receipt(30, upstream="other:0", feature="chat"),
    )
    profile = a_profile('speculative = "auto"')
    features: dict[str, FeatureSpeculation] = {}

    def read(terminal):
        commands = typer.Typer()
        commands.callback()(lambda: None)
        with terminal.store() as store:
            features.update(speculation_by_feature(store, profile, START))
        commands.command("nothing")(lambda: None)
        return commands

    runner.said(read, "nothing")
    chat = features["chat"]

    assert (chat.calls, chat.draft_tokens, chat.accepted_tokens) == (8, 8 * 40 + 36, 240)
    assert (chat.drafted.samples, chat.plain.samples) == (8, 2)
    assert chat.drafted.tokens == 8 * 23
    assert chat.drafted.decode_s == 8 * 0.75
    assert chat.drafted.rate_squares == pytest.approx(8 * 23 * 23 / 0.75)


def test_plan_shows_what_auto_takes_and_why(runner, group, speculation_record):
    output = runner.said(group, "plan", "house")

    assert '"method": "ngram"' in output
    assert "Speculation is auto, and the next start takes: ngram:" in output


def test_plan_of_auto_without_data_tries_the_first_method(runner, group):
    document = json.loads(runner.said(group, "plan", "house", "--json"))

    assert document["speculation_reason"] == "not enough data: ngram:3 is tried first"


def test_preemptions_are_shown_with_what_would_help(tmp_path, runner, group):
    pressed = SpeculationRecord(kv_sums={"auto": KVSums(calls=1_000, preemptions=40)})
    write_record(tmp_path / "engines/house", pressed)
    runner.open().close(5)
    document = json.loads(runner.said(group, "advise", "house", "--json"))["kv_cache"]

    assert (document["kv_dtype"], document["formats"][0]["preempted_share"]) == ("auto", 0.04)
    assert 'Write kv_dtype = "fp8"' in document["advice"]
    assert "4.0% of calls were preempted" in runner.said(group, "advise", "house")


def test_figures_of_each_kv_format_that_ran_stand_below_each_other(tmp_path, runner, group):
    before = KVSums(calls=1_000, preemptions=2, readings=100, tokens=808, decode_s=10, last_at=1)
    after = KVSums(calls=900, preemptions=36, readings=90, starved=27, last_at=2)
    record = SpeculationRecord(kv_sums={"auto": after, "fp8": before})
    write_record(tmp_path / "engines/house", record)
    runner.open().close(5)
    fp8, auto = json.loads(runner.said(group, "advise", "house", "--json"))["kv_cache"]["formats"]
    output = runner.said(group, "advise", "house")

    assert (fp8["kv_dtype"], fp8["preempted_share"], fp8["tokens_per_s"]) == ("fp8", 0.002, 80.8)
    assert (auto["kv_dtype"], auto["starved_share"], auto["tokens_per_s"]) == ("auto", 0.3, None)
    assert "Number formats of the KV cache, the latest last:" in output


def test_advice_and_plan_print_the_benchmarks_of_other_techniques(runner, group):
    runner.open().close(5)
    command = "thriftgate bench latency http://127.0.0.1:8000/v1 --concurrency 1,8"
    document = json.loads(runner.said(group, "advise", "house", "--json"))["benchmarks"]
    planned = json.loads(runner.said(group, "plan", "house", "--json"))["techniques"]

    assert command in runner.said(group, "advise", "house")
    assert command in runner.said(group, "plan", "house")
    assert [row["technique"] for row in document] == ["prefix caching", "chunked prefill"]
    assert [row["technique"] for row in planned] == [
        "speculation: n-gram",
        *(row["technique"] for row in document),
    ]
