"""The engines file and the catalog of the engine demo, and the committed model's size."""

import tomllib
from decimal import Decimal

from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.profiles import SpeculativeMethod
from proxy.tools.engine_demo.profiles import (
    DRAFTED,
    NGRAM,
    PLAIN,
    catalog_text,
    model_file,
    profiles_text,
    read_profiles,
)

MEGABYTES_OF_BOTH_MODELS = 3


def test_three_profiles_differ_in_port_and_speculation():
    profiles = read_profiles(profiles_text([8_001, 8_002, 8_003], "0.25"))
    methods = {
        name: profile.speculation and profile.speculation.method
        for name, profile in profiles.items()
    }

    assert [profile.port for profile in profiles.values()] == [8_001, 8_002, 8_003]
    assert methods == {
        PLAIN: None,
        DRAFTED: SpeculativeMethod.DRAFT_MODEL,
        NGRAM: SpeculativeMethod.NGRAM,
    }
    assert {profile.price_per_gpu_hour for profile in profiles.values()} == {250_000_000}


def test_the_profiles_start_the_committed_model():
    profile = read_profiles(profiles_text([8_001, 8_002, 8_003], "0.25"))[DRAFTED]
    argv = LLAMACPP.launch_command(profile).argv

    assert str(model_file("target.gguf")) in argv
    assert str(model_file("draft.gguf")) in argv


def test_model_and_draft_have_three_megabytes_at_most():
    files = [model_file("target.gguf"), model_file("draft.gguf")]
    size = sum(file.stat().st_size for file in files)

    assert all(file.read_bytes()[:4] == b"GGUF" for file in files)
    assert Decimal(size) / 1_000_000 < MEGABYTES_OF_BOTH_MODELS


def test_the_catalog_of_the_engine_demo_reaches_each_engine_by_its_name():
    profiles = read_profiles(profiles_text([8_001, 8_002, 8_003], "0.25"))
    catalog = tomllib.loads(catalog_text(profiles.values()))

    assert set(catalog["upstreams"]) == {PLAIN, DRAFTED, NGRAM}
    assert catalog["upstreams"][DRAFTED]["base_url"] == "http://127.0.0.1:8002/v1"
    assert [(model["id"], model["upstream"]) for model in catalog["models"]] == [
        (name, name) for name in profiles
    ]
