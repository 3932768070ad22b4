import shlex
from dataclasses import replace

import pytest

from proxy.engines.manifests.deployment import ManifestOptions, plan_deployment
from proxy.engines.manifests.targets import ManifestTarget, build_manifest
from proxy.engines.profile_file import parse_profiles
from proxy.engines.profiles import Engine, EngineProfile
from proxy.engines.techniques import example_profiles

PROFILE = EngineProfile(
    name="house",
    engine=Engine.VLLM,
    model="org/m",
    served_name="m",
    replicas=2,
    tensor_parallel=2,
    max_sequences=16,
    env={"HF_TOKEN": "s3cret"},
)
SCALED = ManifestOptions(namespace="llm", max_replicas=4)
VLLM_EXAMPLES = [
    profile
    for profile in example_profiles().values()
    if profile.engine is Engine.VLLM and not profile.is_attached
]


def only(target, options=SCALED, profile=PROFILE):
    (document,) = build_manifest(profile, target, options).documents
    return document


def test_kubernetes_gives_each_replica_an_address_to_which_the_gateway_attaches():
    manifest = build_manifest(PROFILE, ManifestTarget.KUBERNETES, SCALED)
    service, stateful_set, scaled = manifest.documents

    assert service["spec"]["clusterIP"] == "None"
    assert stateful_set["spec"]["serviceName"] == service["metadata"]["name"]
    for number in range(4):
        assert f'"http://house-{number}.house.llm.svc:8000/v1"' in manifest.attached
    assert "house-4" not in manifest.attached
    assert "replicas" not in stateful_set["spec"], "the autoscaler sets them"
    assert scaled["spec"]["scaleTargetRef"]["name"] == stateful_set["metadata"]["name"]
    assert scaled["spec"]["minReplicaCount"] == 2


def test_kubernetes_keeps_the_number_of_replicas_where_nothing_scales_them():
    manifest = build_manifest(PROFILE, ManifestTarget.KUBERNETES, ManifestOptions())
    _, stateful_set = manifest.documents

    assert stateful_set["spec"]["replicas"] == 2


def test_kubernetes_runs_the_command_of_the_profile():
    _, stateful_set, _ = build_manifest(PROFILE, ManifestTarget.KUBERNETES, SCALED).documents
    (container,) = stateful_set["spec"]["template"]["spec"]["containers"]
    startup = container["startupProbe"]

    assert startup["periodSeconds"] * startup["failureThreshold"] == PROFILE.start_seconds
    assert startup["httpGet"] == {"path": "/health", "port": 8_000}
    assert container["command"] == ["vllm", "serve", "org/m"]
    assert container["args"] == plan_deployment(PROFILE, SCALED).arguments()


def test_kubernetes_names_the_kv_events_of_each_pod_by_its_address():
    profile = replace(PROFILE, kv_events=("ipc:///run/0.sock", "ipc:///run/1.sock"))
    manifest = build_manifest(profile, ManifestTarget.KUBERNETES, SCALED)
    (container,) = manifest.documents[1]["spec"]["template"]["spec"]["containers"]

    read = parse_profiles(manifest.attached, "engines.toml")["house"]

    assert read.kv_events == tuple(f"tcp://house-{n}.house.llm.svc:5557" for n in range(4))
    assert {"name": "kv-events", "containerPort": 5_557} in container["ports"]


@pytest.mark.parametrize("target", sorted(set(ManifestTarget) - {ManifestTarget.KUBERNETES}))
def test_kv_events_are_left_out_behind_a_router(target):
    profile = replace(PROFILE, kv_events=("ipc:///run/0.sock", "ipc:///run/1.sock"))
    manifest = build_manifest(profile, target, SCALED)

    assert "kv_cache_events" not in str(manifest.documents)
    assert "# kv_events are left out" in manifest.attached


@pytest.mark.parametrize("target", ManifestTarget)
def test_a_priority_is_sent_wherever_the_scheduler_goes_by_it(target):
    profile = replace(PROFILE, hints=("vllm",))
    read = parse_profiles(build_manifest(profile, target, SCALED).attached, "e.toml")["house"]

    is_llm_d = target is ManifestTarget.KSERVE
    assert read.hints == (("vllm", "llm-d") if is_llm_d else ("vllm",))


def test_the_production_stack_writes_no_flag_that_its_chart_writes_too():
    (model,) = only(ManifestTarget.PRODUCTION_STACK)["servingEngineSpec"]["modelSpec"]
    extra = model["vllmConfig"]["extraArgs"]

    assert model["vllmConfig"]["enablePrefixCaching"] is True
    assert not {"--host", "--port", "--enable-prefix-caching"} & set(extra)
    assert extra[extra.index("--tensor-parallel-size") + 1] == "2"
    assert (model["repository"], model["tag"]) == ("vllm/vllm-openai", "v0.33.0")
    assert model["keda"]["maxReplicaCount"] == 4

    off = replace(PROFILE, prefix_caching=False)
    (model,) = only(ManifestTarget.PRODUCTION_STACK, profile=off)["servingEngineSpec"]["modelSpec"]
    assert model["vllmConfig"]["enablePrefixCaching"] is False
    assert "--no-enable-prefix-caching" not in model["vllmConfig"]["extraArgs"]


def test_kserve_hands_its_arguments_to_a_shell_which_reads_them_as_they_were():
    profile = replace(PROFILE, extra_args=("--override", '{"a": "it is $HOME"}'))
    spec = only(ManifestTarget.KSERVE, profile=profile)["spec"]
    (container,) = spec["template"]["containers"]
    arguments = shlex.split(container["env"][-1]["value"])

    assert arguments[-2:] == ["--override", '{"a": "it is $HOME"}']
    assert spec["parallelism"] == {"tensor": 2}
    assert not {"--tensor-parallel-size", "--port", "--served-model-name"} & set(arguments)


def test_kserve_has_either_a_number_of_replicas_or_their_limits():
    fixed = only(ManifestTarget.KSERVE, ManifestOptions())["spec"]
    scaled = only(ManifestTarget.KSERVE)["spec"]

    assert fixed["replicas"] == 2
    assert "scaling" not in fixed
    assert "replicas" not in scaled
    assert scaled["scaling"]["keda"]["triggers"]


def test_ray_serve_takes_flags_as_keyword_arguments():
    (application,) = only(ManifestTarget.RAY_SERVE)["applications"]
    (config,) = application["args"]["llm_configs"]
    kwargs = config["engine_kwargs"]

    assert kwargs["max_num_seqs"] == 16
    assert kwargs["enable_prefix_caching"] is True
    assert not {"host", "port", "served_model_name"} & set(kwargs)
    assert config["model_loading_config"] == {"model_id": "m", "model_source": "org/m"}
    assert "s3cret" not in str(application)
    autoscaling = config["deployment_config"]["autoscaling_config"]
    assert autoscaling == {"min_replicas": 2, "max_replicas": 4}


def test_a_flag_that_turns_something_off_is_false_in_ray_serve():
    (application,) = only(ManifestTarget.RAY_SERVE, profile=replace(PROFILE, prefix_caching=False))[
        "applications"
    ]

    (config,) = application["args"]["llm_configs"]
    assert config["engine_kwargs"]["enable_prefix_caching"] is False


@pytest.mark.parametrize("target", ManifestTarget)
@pytest.mark.parametrize("profile", VLLM_EXAMPLES, ids=lambda profile: profile.name)
def test_each_shipped_profile_of_vllm_has_a_manifest(profile, target):
    manifest = build_manifest(profile, target, SCALED)

    assert manifest.documents
    assert f"[engines.{profile.name}]" in manifest.attached


def test_only_kubernetes_runs_another_engine_than_vllm():
    profile = replace(PROFILE, engine=Engine.LLAMACPP)
    options = replace(SCALED, image="llama:1")

    assert build_manifest(profile, ManifestTarget.KUBERNETES, options).documents
    with pytest.raises(ValueError, match="kserve runs vLLM alone"):
        build_manifest(profile, ManifestTarget.KSERVE, options)
