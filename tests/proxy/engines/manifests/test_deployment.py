from dataclasses import replace

import pytest

from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.manifests.deployment import (
    ManifestOptions,
    attached_profile,
    plan_deployment,
)
from proxy.engines.profile_file import parse_profiles
from proxy.engines.profiles import (
    Engine,
    EngineProfile,
    KVDtype,
    Speculation,
    SpeculativeMethod,
    WarmingSettings,
)

PROFILE = EngineProfile(
    name="House LLM",
    engine=Engine.VLLM,
    model="org/m",
    served_name='m"1',
    replicas=2,
    port=8_010,
    tensor_parallel=2,
    region="eu",
    gpu="H100",
    price_per_gpu_hour=2_490_000_000,
    drain_seconds=60,
    start_seconds=605,
    env={"HF_TOKEN": "s3cret", "NOTE": "two words"},
)
OPTIONS = ManifestOptions()


def test_a_replica_listens_on_all_addresses_of_its_pod_and_takes_the_gpus_it_is_given():
    deployment = plan_deployment(PROFILE, OPTIONS)
    arguments = deployment.arguments()

    assert arguments[arguments.index("--host") + 1] == "0.0.0.0"  # noqa: S104
    assert arguments[arguments.index("--port") + 1] == "8000"
    assert "CUDA_VISIBLE_DEVICES" not in {variable["name"] for variable in deployment.environment()}
    assert deployment.resources() == {"limits": {"nvidia.com/gpu": 2}}
    assert plan_deployment(replace(PROFILE, gpus=0), OPTIONS).resources() == {}


def test_a_secret_is_read_from_a_secret_and_never_written():
    environment = plan_deployment(PROFILE, OPTIONS).environment()

    assert {"name": "NOTE", "value": "two words"} in environment
    assert "s3cret" not in str(environment)
    assert {
        "name": "HF_TOKEN",
        "valueFrom": {"secretKeyRef": {"name": "house-llm-env", "key": "HF_TOKEN"}},
    } in environment


def test_a_replica_has_its_drain_time_to_end():
    deployment = plan_deployment(PROFILE, OPTIONS)

    assert deployment.grace_seconds > PROFILE.drain_seconds
    assert "60" in deployment.arguments()


def test_an_image_follows_the_version_of_the_profile():
    assert plan_deployment(PROFILE, OPTIONS).image == "vllm/vllm-openai:v0.33.0"
    older = replace(PROFILE, version="0.29.1")
    assert plan_deployment(older, OPTIONS).image == "vllm/vllm-openai:v0.29.1"
    own = ManifestOptions(image="registry.example/vllm:7")
    assert plan_deployment(PROFILE, own).image == "registry.example/vllm:7"


@pytest.mark.parametrize(
    ("profile", "why"),
    [
        (replace(PROFILE, attached_urls=("http://gpu:8000/v1",)), "others run its replicas"),
        (replace(PROFILE, engine=Engine.SGLANG), "others run its replicas"),
        (replace(PROFILE, engine=Engine.LLAMACPP), "name a container image"),
    ],
)
def test_a_profile_that_cannot_be_deployed_is_refused_with_the_reason(profile, why):
    with pytest.raises(ValueError, match=why):
        plan_deployment(profile, OPTIONS)


def test_the_gateway_reads_the_table_that_attaches_to_the_replicas():
    urls = ["http://a:8000/v1", "http://b:8000/v1"]
    name = "house"
    deployment = plan_deployment(replace(PROFILE, name=name, version="0.29"), OPTIONS)
    table = attached_profile(deployment, urls)

    read = parse_profiles(table, "engines.toml")[name]

    assert read.attached_urls == tuple(urls)
    for field in ("engine", "served_name", "version", "region", "gpu", "price_per_gpu_hour"):
        assert getattr(read, field) == getattr(deployment.profile, field), field
    assert read.gpus_per_replica == 2


def test_the_table_keeps_all_by_which_the_gateway_treats_the_replicas():
    profile = replace(
        PROFILE,
        name="house",
        kv_dtype=KVDtype.FP8,
        prefix_caching=False,
        max_model_len=32_768,
        max_sequences=16,
        warming=WarmingSettings(system_prompts=3, next_turn=False, tokens_per_minute=9),
        shares_cache=True,
        hints=("vllm",),
        key_env="HOUSE_KEY",
    )
    deployment = plan_deployment(profile, OPTIONS)
    text = attached_profile(deployment, ["http://a:8000/v1"], hints=["llm-d", "vllm"])

    read = parse_profiles(text, "engines.toml")["house"]

    fields = ("kv_dtype", "prefix_caching", "max_model_len", "max_sequences", "warming")
    for field in (*fields, "shares_cache", "key_env"):
        assert getattr(read, field) == getattr(profile, field), field
    assert read.hints == ("vllm", "llm-d")


@pytest.mark.parametrize(
    "drafts",
    [
        None,
        Speculation(method=SpeculativeMethod.NGRAM, tokens=4, ngram_min=2, ngram_max=5),
        Speculation(method=SpeculativeMethod.DRAFT_MODEL, draft="org/draft", tokens=5),
    ],
)
def test_the_table_names_the_speculation_that_the_advisor_judges(drafts):
    profile = replace(PROFILE, name="house", speculation=drafts)
    text = attached_profile(plan_deployment(profile, OPTIONS), ["http://a:8000/v1"])

    assert parse_profiles(text, "engines.toml")["house"].speculation == drafts


def test_each_pod_publishes_its_kv_events_at_the_port_of_the_profile_or_at_vllms_own():
    ports = {"tcp://gpu1:6000": 6_000, "ipc:///run/kv-0.sock": 5_557}
    for address, port in ports.items():
        profile = replace(PROFILE, kv_events=(address, address))
        deployment = plan_deployment(profile, OPTIONS)

        assert deployment.events_port == port
        assert f'"endpoint": "tcp://*:{port}"' in " ".join(deployment.arguments())


def test_behind_a_router_no_replica_publishes_events_and_the_table_says_so():
    profile = replace(PROFILE, name="house", kv_events=("tcp://a:1", "tcp://b:1"))
    deployment = plan_deployment(profile, OPTIONS, has_router=True)
    table = attached_profile(deployment, ["http://router/v1"])

    assert "--kv-events-config" not in deployment.arguments()
    assert "# kv_events are left out: a router stands before the replicas" in table
    assert not parse_profiles(table, "engines.toml")["house"].kv_events


def test_replicas_scale_on_calls_of_gateways_and_on_the_queue_of_the_engine():
    scaled = plan_deployment(PROFILE, ManifestOptions(max_replicas=5))
    demand, waiting = (trigger["metadata"] for trigger in scaled.triggers())

    assert scaled.scales
    assert scaled.replica_limit == 5
    assert 'engine="House LLM"' in demand["query"]
    assert ADAPTERS[Engine.VLLM].metrics.waiting[0] in waiting["query"]
    assert not plan_deployment(PROFILE, ManifestOptions(max_replicas=2)).scales
