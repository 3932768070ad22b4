from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.engines.profile_file import FIELDS, parse_profiles
from proxy.engines.profiles import (
    AutoSpeculation,
    Engine,
    EngineProfile,
    KVDtype,
    Speculation,
    SpeculativeMethod,
    WarmingSettings,
)
from slo.toml.fields import keys
from slo.toml.problems import InvalidFile
from tests.fakes.engine_profiles import a_profile, launchable_profiles, profile_text


def problem(text: str) -> str:
    """The only problem of a text."""
    with pytest.raises(InvalidFile) as caught:
        parse_profiles(text, "engines.toml")
    (only,) = caught.value.problems
    return str(only)


def house(table: str, engine: str = "vllm") -> str:
    return f'[engines.house]\nengine = "{engine}"\nmodel = "m"\n{table}\n'


def test_every_field_of_a_profile_is_read():
    text = """
[engines.house]
engine = "vllm"
version = "0.32"
program = ["python", "-m", "vllm.entrypoints.openai.api_server"]
model = "Qwen/Qwen3-32B"
served_name = "house-llm"
replicas = 2
host = "0.0.0.0"
port = 9000
goal = "latency"
speculative = { method = "ngram", tokens = 4, ngram_min = 3, ngram_max = 5 }
kv_dtype = "fp8"
quantization = "awq"
kv_offload_gb = 0.5
cpu_offload_gb = 8
prefix_caching = false
max_model_len = 8192
max_sequences = 16
max_batched_tokens = 2048
tensor_parallel = 2
gpus = 2
role = "decode"
"""
    with pytest.raises(InvalidFile, match="kv_offload_gb: takes the place of the KV transfer"):
        parse_profiles(text, "engines.toml")
    profile = parse_profiles(text.replace('role = "decode"', ""), "engines.toml")["house"]

    assert profile.program == ("python", "-m", "vllm.entrypoints.openai.api_server")
    assert (profile.served_name, profile.replicas, profile.port) == ("house-llm", 2, 9000)
    assert profile.speculation == Speculation(
        method=SpeculativeMethod.NGRAM, tokens=4, ngram_min=3, ngram_max=5
    )
    assert (profile.kv_dtype, profile.kv_offload_gb) == (KVDtype.FP8, Decimal("0.5"))
    assert (profile.prefix_caching, profile.max_sequences, profile.gpus) == (False, 16, 2)


def test_a_profile_that_names_engine_and_model_alone_has_defaults():
    profile = parse_profiles(house(""), "engines.toml")["house"]

    assert profile == EngineProfile(name="house", engine=Engine.VLLM, model="m", served_name="m")
    assert profile.price_per_gpu_hour is None


def test_a_price_is_exact_and_a_float_is_refused():
    assert a_profile('price_per_gpu_hour = "2.49"').price_per_gpu_hour == 2_490_000_000
    assert 'write "2.49"' in problem(house("price_per_gpu_hour = 2.49"))


def test_attached_replicas_get_the_address_of_their_api():
    urls = '["http://gpu1:8000", "https://gpu2/llm/v1/"]'
    profile = a_profile(f"replicas = {urls}", engine="sglang")

    assert profile.attached_urls == ("http://gpu1:8000/v1", "https://gpu2/llm/v1")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ('goal = "fast"', '4: engines.house.goal: names "fast", which is not known; known are'),
        ('engin = "x"', "engines.house.engin: is not known; did you mean engine?"),
        ('speculative = { method = "eagle3" }', "speculative.draft: is missing, and eagle3 needs"),
        ('speculative = { method = "ngram", draft = "d" }', "is not used by ngram; leave it out"),
        (
            'speculative = { method = "ngram", ngram_min = 9 }',
            "ngram_min: is above ngram_max; write 4 or less",
        ),
        ("speculative = 3", "is 3; write a { table }"),
        ("port = 0", "port: is 0; write a whole number from 1 to 65535"),
        ("replicas = []", "lists 0 URLs; write 1 to 64 base URLs"),
        ('replicas = ["ftp://gpu"]', 'is no address of a replica; write "http://gpu1:8000/v1"'),
        ('replicas = ["http://[::1"]', "is no address of a replica"),
        ("replicas = [8]", 'replicas[0]: is 8; write "http://gpu1:8000/v1"'),
        ("kv_offload_gb = -1", "kv_offload_gb: is -1; write GiB from 0"),
        ('kv_offload_gb = "64"', "write GiB from 0"),
        ('version = "latest"', 'is not of the right form; write version = "0.33"'),
        ('extra_args = [""]', "extra_args[0]: is no argument of a command; leave it out"),
        ('env = { "A B" = "1" }', "is no environment variable; write letters"),
        ('program = ""', 'is empty; write program = "llama-server"'),
        ("gpus = true", "gpus: is true; write a whole number"),
        ("tensor_parallel = 4\ngpus = 2", "gpus: is below 4, which is tensor_parallel"),
    ],
)
def test_a_problem_names_its_place_and_its_fix(table, expected):
    assert expected in problem(house(table))


def test_a_name_that_cannot_be_typed_is_a_problem():
    text = '[engines."a b"]\nengine = "vllm"\nmodel = "m"\n'

    assert "engines.toml:1: engines.a b: has a name that cannot be typed" in problem(text)


def test_two_profiles_on_one_port_are_a_problem_of_the_second():
    text = house("replicas = 2") + '[engines.b]\nengine = "vllm"\nmodel = "m"\nport = 8001\n'

    assert "8: engines.b.port: takes port 8001, which house takes too; write 8002" in problem(text)


def test_every_problem_of_a_file_is_reported_at_once():
    text = house('goal = "fast"\nport = 0') + '[engines.b]\nengine = "sglang"\n'

    with pytest.raises(InvalidFile) as caught:
        parse_profiles(text, "engines.toml")

    assert [issue.line for issue in caught.value.problems] == [4, 5, 6]


@given(launchable_profiles())
def test_any_valid_profile_is_the_same_after_it_was_written_and_read(profile):
    assert parse_profiles(profile_text(profile), "engines.toml") == {profile.name: profile}


_VALUES = st.recursive(
    st.sampled_from(['"vllm"', '"llamacpp"', '"x"', "0", "-1", "2.5", "true", "nan", "99999999"]),
    lambda inner: st.lists(inner, max_size=2).map(lambda parts: f"[{', '.join(parts)}]"),
    max_leaves=3,
) | st.just('{ method = "ngram" }')


@given(st.dictionaries(st.sampled_from(keys(FIELDS)), _VALUES, max_size=6))
def test_any_values_give_profiles_or_problems_and_never_another_error(table):
    lines = [f"{key} = {value}" for key, value in table.items()]
    fixes = ["none"]
    try:
        parse_profiles("\n".join(["[engines.a]", *lines]), "engines.toml")
    except InvalidFile as bad:
        fixes = [issue.fix for issue in bad.problems]

    assert all(fixes)


def test_auto_leaves_method_and_depth_to_the_advisor():
    text = a_profile('speculative = "auto"')
    table = a_profile(
        'replicas = 3\nspeculative = { method = "auto", draft = "d", control_replicas = 1 }'
    )

    assert (text.speculation, text.auto_speculation) == (None, AutoSpeculation())
    assert table.auto_speculation == AutoSpeculation(draft="d")
    assert table.control_replicas == 1
    listed = a_profile('speculative = { method = "auto", methods = ["suffix", "mtp", "suffix"] }')
    assert listed.auto_speculation == AutoSpeculation(
        methods=(SpeculativeMethod.SUFFIX, SpeculativeMethod.MTP)
    )


@pytest.mark.parametrize(
    ("table", "what"),
    [
        ('speculative = { method = "auto", tokens = 4 }', "is chosen by the advisor"),
        ('speculative = { method = "auto", methods = ["eagle3"] }', "eagle3 needs one"),
        ('speculative = { method = "auto", methods = ["mpt"] }', "did you mean mtp"),
        ('speculative = { method = "auto", methods = ["ngram"], draft = "d" }', "is not used by"),
        (
            'speculative = { method = "auto", methods = ["eagle3", "draft_model"], draft = "d" }',
            "whose drafts are different weights",
        ),
        ('speculative = { method = "ngram", methods = ["mtp"] }', "is for the advisor"),
        ('speculative = { method = "ngram", control_replicas = 1 }', "no replica that speculates"),
        ('speculative = "always"', "is"),
    ],
)
def test_a_setting_of_auto_that_cannot_be_followed_is_named(table, what):
    with pytest.raises(InvalidFile, match=what):
        a_profile(table)


def test_hints_are_read_once_each_and_unknown_ones_are_named():
    profile = parse_profiles(house('hints = ["vllm", "vllm"]'), "engines.toml")["house"]

    assert profile.hints == ("vllm",)
    assert 'names "priority", which is not known' in problem(house('hints = ["priority"]'))


def test_teams_share_a_cache_only_where_the_profile_says_so():
    assert parse_profiles(house("shares_cache = true"), "engines.toml")["house"].shares_cache
    assert not parse_profiles(house(""), "engines.toml")["house"].shares_cache


def test_warming_is_off_unless_the_profile_asks_for_it():
    def warming(table: str) -> WarmingSettings | None:
        return parse_profiles(house(table), "engines.toml")["house"].warming

    assert warming("") is None
    assert warming("warming = false") is None
    assert warming("warming = true") == WarmingSettings()
    assert warming("warming = { next_turn = false, tokens_per_minute = 9 }") == WarmingSettings(
        next_turn=False, tokens_per_minute=9
    )
    assert "write warming = true, or a { table }" in problem(house("warming = 3"))
    assert "is 65; write a whole number from 0 to 64" in problem(
        house("warming = { system_prompts = 65 }")
    )
    assert "is not known" in problem(house("warming = { prompts = 5 }"))
