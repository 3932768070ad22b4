import json

import pytest

from proxy.engines.adapters.vllm import VLLM
from proxy.engines.profiles import Engine, EngineProfile, KVDtype
from slo.toml.problems import InvalidFile
from tests.fakes.engine_profiles import a_profile, written_flags


def value(table: str, flag: str) -> str | None:
    """The value of a flag in a profile's command line; None where it has no such flag."""
    flags = written_flags(a_profile(table))
    return flags[flags.index(flag) + 1] if flag in flags else None


def test_the_command_is_vllm_serve_with_the_model_first():
    command = VLLM.launch_command(a_profile('served_name = "house"'))

    assert command.program == ("vllm", "serve", "m.gguf")
    assert command.flags[0].argv == ("--served-model-name", "house")
    assert command.base_url == "http://127.0.0.1:8000/v1"


def test_a_vllm_program_of_its_own_gets_the_model_as_a_flag():
    table = 'program = ["python", "-m", "vllm.entrypoints.openai.api_server"]'
    command = VLLM.launch_command(a_profile(table))

    assert command.argv[:5] == (
        *("python", "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", "m.gguf"),
    )


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            '{ method = "draft_model", draft = "d", tokens = 4 }',
            {"method": "draft_model", "num_speculative_tokens": 4, "model": "d"},
        ),
        (
            '{ method = "ngram", tokens = 4, ngram_min = 2, ngram_max = 5 }',
            {
                "method": "ngram",
                "num_speculative_tokens": 4,
                "prompt_lookup_min": 2,
                "prompt_lookup_max": 5,
            },
        ),
        ('{ method = "mtp", tokens = 1 }', {"method": "mtp", "num_speculative_tokens": 1}),
        ('{ method = "suffix" }', {"method": "suffix", "num_speculative_tokens": 3}),
    ],
)
def test_speculation_is_one_json_flag(table, expected):
    written = value(f"speculative = {table}", "--speculative-config")

    assert written is not None
    assert json.loads(written) == expected


@pytest.mark.parametrize(
    ("dtype", "written"), [("fp8", "fp8"), ("int8", "int8_per_token_head"), ("auto", None)]
)
def test_kv_formats_are_written_in_vllms_words(dtype, written):
    assert value(f'kv_dtype = "{dtype}"', "--kv-cache-dtype") == written


def test_int4_kv_needs_a_version_that_has_it():
    assert value('kv_dtype = "int4"', "--kv-cache-dtype") == "int4_per_token_head"
    with pytest.raises(InvalidFile, match=r"kv_dtype: is not in vLLM 0\.26; write kv_dtype"):
        a_profile('kv_dtype = "int4"\nversion = "0.26"')


def test_goals_set_batch_limits_that_the_profile_overrides():
    assert value('goal = "latency"', "--max-num-seqs") == "32"
    assert value('goal = "latency"\nmax_sequences = 8', "--max-num-seqs") == "8"
    assert value('goal = "throughput"', "--max-num-batched-tokens") == "16384"
    assert value('goal = "throughput"', "--stream-interval") == "8"
    assert value("", "--max-num-seqs") is None
    assert value("", "--performance-mode") is None


def test_a_step_holds_at_least_a_token_of_each_sequence():
    table = 'goal = "latency"\nmax_sequences = 8192'

    assert value(table, "--max-num-batched-tokens") == "8192"
    with pytest.raises(InvalidFile, match="max_batched_tokens: is below max_sequences"):
        a_profile("max_sequences = 64\nmax_batched_tokens = 32")


def test_without_chunked_prefill_a_step_holds_a_whole_prompt():
    table = 'goal = "latency"\nchunked_prefill = false'

    assert "--no-enable-chunked-prefill" in written_flags(a_profile(table))
    assert value(table, "--max-num-batched-tokens") is None
    with pytest.raises(InvalidFile, match="below max_model_len without chunked prefill"):
        a_profile("chunked_prefill = false\nmax_model_len = 9000\nmax_batched_tokens = 2048")


@pytest.mark.parametrize(
    ("version", "count"), [("0.20", 1), ("0.27.1", 2), ("0.29", 3), ("0.33", 3), ("", 3)]
)
def test_metrics_flags_are_those_of_the_version(version, count):
    stated = f'version = "{version}"\n' if version else ""
    flags = written_flags(a_profile(stated + 'speculative = { method = "mtp" }'))
    names = {
        "--enable-prompt-tokens-details",
        "--enable-per-request-metrics",
        "--per-request-spec-decode-metrics",
    }

    assert len(names & set(flags)) == count


def test_parallel_sizes_offload_and_parsers_are_flags():
    flags = " ".join(
        written_flags(
            a_profile(
                "tensor_parallel = 2\npipeline_parallel = 2\ndata_parallel = 2\n"
                'kv_offload_gb = 64\ncpu_offload_gb = 0.5\nquantization = "awq"\n'
                'tool_call_parser = "hermes"\nreasoning_parser = "qwen3"\nprefix_caching = false'
            )
        )
    )

    for part in (
        "--tensor-parallel-size 2 --pipeline-parallel-size 2 --data-parallel-size 2",
        "--kv-offloading-size 64",
        "--cpu-offload-gb 0.5",
        "--quantization awq",
        "--enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3",
        "--no-enable-prefix-caching",
    ):
        assert part in flags


def test_prefill_and_decode_exchange_kv_blocks_over_ports_of_their_own():
    profile = a_profile('role = "decode"\nreplicas = 2')
    command = VLLM.launch_command(profile, 1)

    assert json.loads(
        next(f.argv[1] for f in command.flags if f.argv[0] == "--kv-transfer-config")
    ) == {"kv_connector": "NixlConnector", "kv_role": "kv_consumer"}
    assert command.env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5601"


def test_replicas_on_one_machine_get_gpus_of_their_own():
    profile = a_profile("replicas = 2\ntensor_parallel = 2")

    assert VLLM.launch_command(profile, 1).env["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert "CUDA_VISIBLE_DEVICES" not in VLLM.launch_command(a_profile("")).env
    on_processors = a_profile("replicas = 2\ngpus = 0")
    assert "CUDA_VISIBLE_DEVICES" not in VLLM.launch_command(on_processors).env


def test_calls_get_the_profiles_time_to_end():
    assert value("drain_seconds = 7", "--shutdown-timeout") == "7"


def test_every_kv_format_is_known():
    assert VLLM.kv_dtypes == set(KVDtype)
    assert list(VLLM.find_misfits(EngineProfile(name="a", engine=Engine.VLLM))) == []


def test_a_profile_whose_calls_have_a_priority_schedules_by_it():
    assert value("", "--scheduling-policy") is None
    assert value('hints = ["vllm"]', "--scheduling-policy") == "priority"
    assert written_flags(a_profile('hints = ["vllm"]\ngoal = "latency"')).count("priority") == 1


def test_kv_events_are_published_where_the_profile_says_and_bound_on_every_host():
    table = 'kv_events = ["ipc:///run/kv.sock", "tcp://gpu1:5557"]\nreplicas = 2'
    written = []
    for replica in range(2):
        argv = VLLM.launch_command(a_profile(table), replica).argv
        written.append(json.loads(argv[argv.index("--kv-events-config") + 1])["endpoint"])

    assert written == ["ipc:///run/kv.sock", "tcp://*:5557"]
    assert value("", "--kv-events-config") is None
