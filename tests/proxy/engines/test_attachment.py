import json

import pytest

from proxy.engines.attachment import EnginePages, profile_table, recognise_engine
from proxy.engines.profile_file import parse_profiles
from proxy.engines.profiles import Engine
from tests.fakes.engine_pages import PAGE

URL = "http://gpu:8000/v1"


def models(*ids: str, owner: str = "") -> bytes:
    return json.dumps({"data": [{"id": name, "owned_by": owner} for name in ids]}).encode()


def test_vllm_is_known_by_its_metrics_with_version_and_cache_room():
    room = b'vllm:cache_config_info{num_gpu_blocks="100",block_size="16"} 1\n'
    recognised = recognise_engine(
        EnginePages(
            models=models("qwen"), metrics=PAGE + room, version=b'{"version": "0.32.0+cpu"}'
        )
    )

    assert (recognised.engine, recognised.version, recognised.models) == (
        Engine.VLLM,
        "0.32.0",
        ("qwen",),
    )
    assert recognised.cache_tokens == 1_600


@pytest.mark.parametrize(
    ("metrics", "owner", "engine"),
    [
        (b"llamacpp:requests_processing 0\n", "", Engine.LLAMACPP),
        (b"# HELP x\nsglang:num_running_reqs 0\n", "", Engine.SGLANG),
        (b"trtllm_num_requests_running 0\n", "", Engine.TENSORRT_LLM),
        (b"", "vllm", Engine.VLLM),
        (b"", "someone", None),
    ],
)
def test_an_engine_is_known_by_its_metrics_or_else_by_the_owner_of_its_models(
    metrics, owner, engine
):
    pages = EnginePages(models=models("m", owner=owner), metrics=metrics)

    assert recognise_engine(pages).engine == engine


def test_an_engine_without_metrics_gets_a_note_with_the_flags_that_it_needs():
    notes = recognise_engine(EnginePages(models=models("m", owner="sglang"))).notes

    assert any("start it with --enable-metrics" in note for note in notes)
    assert any("500,000 tokens are assumed" in note for note in notes)


def test_pages_of_something_else_are_described_and_never_an_error():
    recognised = recognise_engine(EnginePages(models=b"<html>", metrics=b"\xff", version=b"[]"))

    assert recognised.engine is None
    assert "names no model" in recognised.notes[0]


@pytest.mark.parametrize("name", ["", "my.engine"])
def test_the_table_is_a_profile_that_can_be_read(name):
    recognised = recognise_engine(EnginePages(models=models('org/Qwen "3"'), metrics=PAGE))
    table = profile_table(recognised, [URL], name=name, region="eu")
    (profile,) = parse_profiles(table, "engines.toml").values()

    assert profile.attached_urls == (URL,)
    assert (profile.served_name, profile.region) == ('org/Qwen "3"', "eu")
    assert profile.name == (name or "Qwen-3")


def test_a_build_of_llamacpp_without_a_number_is_left_out():
    pages = EnginePages(
        models=models("m", owner="llamacpp"), properties=b'{"build_info": "b0-unknown"}'
    )

    assert recognise_engine(pages).version == ""
