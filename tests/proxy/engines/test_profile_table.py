from proxy.engines.profile_file import parse_profiles
from proxy.engines.profile_table import write_profile

FIELDS = {
    "engine": "vllm",
    "served_name": 'm "7b"\\ 😀',
    "replicas": [f"http://house-{number}.house.default.svc:8000/v1" for number in range(12)],
    "prefix_caching": False,
    "max_model_len": 32_768,
    "warming": {"system_prompts": 0, "next_turn": True},
}


def test_a_written_table_is_read_as_the_profile_that_it_says():
    read = parse_profiles(write_profile("house.eu", FIELDS), "engines.toml")["house.eu"]

    assert read.served_name == FIELDS["served_name"]
    assert list(read.attached_urls) == FIELDS["replicas"]
    assert (read.prefix_caching, read.max_model_len) == (False, 32_768)
    assert read.warming is not None
    assert (read.warming.system_prompts, read.warming.next_turn) == (0, True)


def test_a_field_without_a_value_is_left_out_and_a_short_array_stands_on_one_line():
    fields = {"region": "", "key_env": None, "hints": [], "replicas": ["http://a/v1"]}

    assert write_profile("a", fields) == '[engines.a]\nreplicas = ["http://a/v1"]\n'


def test_a_note_is_a_comment_above_the_fields():
    table = write_profile("a", {"engine": "vllm"}, ["a router chooses"])

    assert table == '[engines.a]\n# a router chooses\nengine = "vllm"\n'
