import pytest

from proxy.engines.adapters.llamacpp import LLAMACPP
from slo.toml.problems import InvalidFile
from tests.fakes.engine_profiles import a_profile, written_flags


def flags(table: str) -> str:
    return " ".join(written_flags(a_profile(table, engine="llamacpp")))


def test_the_command_runs_the_wheels_server_with_the_gateways_python():
    command = LLAMACPP.launch_command(a_profile("", engine="llamacpp"), python="python3")

    assert command.program == ("python3", "-m", "proxy.engines.supervision.llamacpp_server")
    assert command.flags[0].argv == ("--model", "m.gguf")


def test_streams_are_awaited_before_sigterm_as_llamacpp_would_break_them():
    command = LLAMACPP.launch_command(a_profile("", engine="llamacpp"))

    assert command.busy_metrics == ("llamacpp:requests_processing", "llamacpp:requests_deferred")


def test_a_llama_server_binary_takes_the_flags_of_the_wheel():
    own = LLAMACPP.launch_command(a_profile("", engine="llamacpp"))
    binary = LLAMACPP.launch_command(a_profile('program = "llama-server"', engine="llamacpp"))

    assert binary.argv[:1] == ("llama-server",)
    assert binary.flags == own.flags


def test_a_model_that_is_no_file_is_downloaded_from_hugging_face():
    table = 'speculative = { method = "draft_model", draft = "org/draft" }'
    profile = a_profile(table, engine="llamacpp")
    from_hub = LLAMACPP.launch_command(profile)

    assert "--spec-draft-hf org/draft" in " ".join(from_hub.argv)
    assert "--spec-draft-model ./draft" in flags(table.replace("org/draft", "./draft"))


def test_threads_are_those_of_the_model_and_of_the_one_that_drafts():
    draft = 'speculative = { method = "draft_model", draft = "./d.gguf" }'

    assert "--threads" not in flags(draft)
    assert "--threads 3 --threads-batch 3" in flags(f"{draft}\nthreads = 3")
    assert "--spec-draft-threads 3" in flags(f"{draft}\nthreads = 3")
    assert "--spec-draft-threads" not in flags("threads = 3")
    with pytest.raises(InvalidFile, match="is for llama"):
        a_profile("threads = 3")


def test_the_context_is_the_sum_of_all_slots():
    assert "--parallel 4 --ctx-size 8192" in flags("max_model_len = 2048")
    assert "--parallel 8" in flags('goal = "throughput"')
    assert "--parallel 3" in flags('goal = "throughput"\nmax_sequences = 3')


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('{ method = "draft_model", draft = "d.gguf" }', "--spec-type draft-simple"),
        ('{ method = "eagle3", draft = "d.gguf", tokens = 5 }', "--spec-draft-n-max 5"),
        ('{ method = "mtp", tokens = 1 }', "--spec-type draft-mtp --spec-draft-n-max 1"),
        (
            '{ method = "ngram", tokens = 8, ngram_max = 5 }',
            "ngram-simple --spec-ngram-simple-size-n 5 --spec-ngram-simple-size-m 8",
        ),
    ],
)
def test_speculation_has_a_type_and_its_numbers(table, expected):
    assert expected in flags(f"speculative = {table}")


def test_a_small_kv_cache_needs_flash_attention():
    expected = "--cache-type-k q4_0 --cache-type-v q4_0 --flash-attn on"

    assert expected in flags('kv_dtype = "int4"')


def test_offload_devices_and_reasoning_are_flags():
    assert "--cache-ram 512" in flags("kv_offload_gb = 0.5")
    assert "--n-gpu-layers 0" in flags("gpus = 0")
    assert "--split-mode row" in flags("tensor_parallel = 2")
    assert "--split-mode layer" in flags("pipeline_parallel = 2")
    assert "--reasoning-format deepseek" in flags('reasoning_parser = "deepseek"')
    assert "--no-cache-prompt" in flags("prefix_caching = false")
    assert "--batch-size 256" in flags("max_batched_tokens = 256")


def test_replicas_with_gpus_get_some_of_their_own():
    profile = a_profile("replicas = 2\ngpus = 1", engine="llamacpp")

    assert LLAMACPP.launch_command(profile, 1).env == {"CUDA_VISIBLE_DEVICES": "1"}
    assert LLAMACPP.launch_command(a_profile("replicas = 2", engine="llamacpp"), 1).env == {}


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('quantization = "awq"', "quantization: is a property of the GGUF file"),
        ("cpu_offload_gb = 4", "cpu_offload_gb: is counted in layers"),
        ("chunked_prefill = false", "chunked_prefill: cannot be turned off"),
        ('tool_call_parser = "hermes"', "tool_call_parser: is not chosen in llama.cpp"),
        ('reasoning_parser = "qwen3"', "write one of none, auto, deepseek, deepseek-legacy"),
        ("data_parallel = 2", "data_parallel: is not in llama.cpp; write replicas = 2"),
        ("tensor_parallel = 2\npipeline_parallel = 2", "goes with no pipeline_parallel"),
        ('role = "prefill"', "role: is not in llama.cpp"),
    ],
)
def test_fields_that_llamacpp_cannot_follow_are_problems(table, expected):
    with pytest.raises(InvalidFile, match=expected.replace(".", r"\.")):
        a_profile(table, engine="llamacpp")
