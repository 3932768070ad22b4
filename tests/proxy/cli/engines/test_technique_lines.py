"""The commands that tell whether a profile's techniques paid."""

from proxy.cli.engines.technique_lines import technique_documents, technique_lines
from tests.fakes.engine_profiles import a_profile

OFF = "prefix_caching = false\nchunked_prefill = false\n"


def test_a_benchmark_asks_the_profile_s_own_replica():
    (document,) = technique_documents(a_profile(OFF + 'port = 8123\nquantization = "fp8"'))

    assert document["technique"] == "fp8 weights"
    assert document["command"].startswith("thriftgate bench latency http://127.0.0.1:8123/v1 --")
    assert document["look_at"].startswith("ITL p50 at 1 caller")


def test_a_kv_format_is_measured_by_the_advisor():
    profile = a_profile(OFF + 'kv_dtype = "fp8"')
    (document,) = technique_documents(profile)

    assert document["command"] == "thriftgate engine advise house"
    assert technique_documents(profile, only_benchmarks=True) == []
    assert list(technique_lines(profile, only_benchmarks=True)) == []


def test_lines_name_technique_figure_and_command():
    profile = a_profile(OFF + "tensor_parallel = 2")
    lines = list(technique_lines(profile))

    assert lines == list(technique_lines(profile, only_benchmarks=True))
    assert lines[2].startswith("tensor parallelism: ITL p50")
    assert lines[3].startswith("    thriftgate bench latency http://127.0.0.1:8000/v1 --")


def test_a_profile_without_techniques_has_no_lines():
    assert list(technique_lines(a_profile(OFF))) == []
