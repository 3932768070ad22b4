"""The reference lists each technique, and each has a profile that shows it."""

import re
import shlex
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise

import pytest

from proxy.cli.testing.bench import bench
from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.profile_file import (
    FIELDS,
    SPECULATIVE_FIELDS,
    WARMING_FIELDS,
    parse_profiles,
)
from proxy.engines.profiles import Engine
from proxy.engines.techniques import (
    TECHNIQUES,
    Technique,
    example_profiles,
    used_techniques,
)
from slo.toml.fields import Field, reference
from tests.fakes.admission_harness import NOW
from tests.fakes.cli_runner import CommandRunner
from tests.fakes.engine_profiles import a_profile, written_flags
from tests.fakes.source_trees import ROOT

README = (ROOT / "proxy/engines/README.md").read_text(encoding="utf8")


@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: technique.name)
def test_the_reference_says_when_a_technique_pays_what_it_costs_and_how_it_is_judged(
    technique: Technique,
):
    (row,) = (line for line in README.splitlines() if line.startswith(f"| {technique.name} |"))
    _, example, good_for, costs, judged_by = row.strip("| ").split(" | ")

    assert (example, judged_by) == (f"`{technique.example}`", technique.judged_by)
    assert good_for
    assert costs


@pytest.mark.parametrize(
    "fields", [FIELDS, SPECULATIVE_FIELDS, WARMING_FIELDS], ids=lambda fields: fields[0].key
)
def test_readme_has_the_reference_of_every_table_of_a_profile(fields: tuple[Field, ...]):
    assert reference(fields) in README


def test_the_profiles_of_the_reference_are_valid():
    blocks = re.findall(r"^```toml\n(\[engines\..*?)^```", README, flags=re.DOTALL | re.MULTILINE)
    profiles = parse_profiles("\n".join(blocks), "README.md")

    named = ["chat", "house-llm", "house-llm-gpu", "running", "remote", "house-auto", "cluster"]
    assert list(profiles) == named
    assert profiles["house-llm-gpu"].ports == range(8010, 8012)


@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: technique.name)
def test_the_example_of_a_technique_writes_its_flag(technique: Technique):
    profile = example_profiles()[technique.example]

    assert technique.flags[profile.engine] in written_flags(profile)


#: A profile of llama.cpp that turns each technique on.
_LLAMACPP = {
    "draft-model": 'speculative = { method = "draft_model", draft = "d.gguf" }',
    "ngram": 'speculative = { method = "ngram" }',
    "eagle3": 'speculative = { method = "eagle3", draft = "d.gguf" }',
    "mtp": 'speculative = { method = "mtp" }',
    "int4-kv": 'kv_dtype = "int4"',
    "kv-offload": "kv_offload_gb = 1",
    "prefix-caching": "prefix_caching = true",
    "batching": "max_sequences = 2",
    "chunked-prefill": "max_batched_tokens = 256",
    "tensor-parallel": "tensor_parallel = 2",
}


def test_the_techniques_of_llamacpp_write_their_flags():
    named = {technique.example: technique.flags[Engine.LLAMACPP] for technique in TECHNIQUES}

    assert {example for example, flag in named.items() if flag} == set(_LLAMACPP)
    for example, table in _LLAMACPP.items():
        assert named[example] in written_flags(a_profile(table, engine="llamacpp"))


def test_every_shipped_profile_can_be_launched():
    for profile in example_profiles().values():
        assert ADAPTERS[profile.engine].launch_command(profile).argv


def test_every_technique_has_a_flag_or_none_on_each_engine():
    assert all(set(technique.flags) == set(Engine) for technique in TECHNIQUES)


@pytest.mark.parametrize(
    "technique",
    [technique for technique in TECHNIQUES if technique.bench],
    ids=lambda technique: technique.name,
)
def test_the_benchmark_of_a_technique_is_a_command_that_the_command_line_takes(
    tmp_path, technique: Technique
):
    words = shlex.split(technique.command(example_profiles()[technique.example]))
    nobody = "http://127.0.0.1:9"  # every option is parsed before the server is asked
    output = CommandRunner(tmp_path, NOW).error_of(
        bench, "latency", nobody, *words[4:], "--model", "m"
    )

    assert words[:3] == ["thriftgate", "bench", "latency"]
    assert words[3].startswith("http://")
    assert "does not answer" in output


@pytest.mark.parametrize(
    "technique",
    [technique for technique in TECHNIQUES if technique.bench],
    ids=lambda technique: technique.name,
)
def test_a_benchmark_has_calls_for_all_of_its_callers(technique: Technique):
    words = technique.bench.split()
    chosen = dict(pairwise(words))

    callers = max(map(int, chosen["--concurrency"].split(",")))
    assert int(chosen.get("--requests", "32")) >= 2 * callers


@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: technique.name)
def test_a_technique_is_in_effect_in_its_example(technique: Technique):
    assert technique in used_techniques(example_profiles()[technique.example])


def test_a_plain_profile_uses_what_its_engine_does_by_default():
    by_default = ["prefix caching", "chunked prefill"]

    assert [technique.name for technique in used_techniques(a_profile(""))] == by_default
    off = a_profile("prefix_caching = false\nchunked_prefill = false")
    assert used_techniques(off) == ()
    offloaded = replace(a_profile("", engine="llamacpp"), cpu_offload_gb=Decimal(4))
    assert [
        technique.name for technique in used_techniques(offloaded)
    ] == by_default  # it has no flag for it
