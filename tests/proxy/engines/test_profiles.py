from dataclasses import replace

from proxy.engines.profiles import Engine, EngineProfile, SpeculativeMethod, WarmingSettings


def test_draft_models_and_eagle_heads_are_the_methods_that_need_weights():
    assert [m for m in SpeculativeMethod if m.needs_draft] == ["draft_model", "eagle3"]


def test_a_replica_has_as_many_gpus_as_its_parallel_sizes_need_unless_the_profile_says():
    implied = EngineProfile(
        name="a", engine=Engine.VLLM, tensor_parallel=2, pipeline_parallel=3, data_parallel=2
    )

    assert implied.gpus_per_replica == 12
    assert replace(implied, gpus=16).gpus_per_replica == 16


def test_each_started_replica_takes_a_port_and_attached_ones_take_none():
    started = EngineProfile(name="a", engine=Engine.VLLM, replicas=3, port=8000)
    attached = EngineProfile(name="a", engine=Engine.VLLM, attached_urls=("http://g/v1",) * 2)

    assert list(started.ports) == [8000, 8001, 8002]
    assert (started.replica_count, started.is_attached) == (3, False)
    assert (list(attached.ports), attached.replica_count, attached.is_attached) == ([], 2, True)


def test_a_replica_drains_for_30_seconds_and_eight_system_prompts_are_warmed_by_default():
    profile = EngineProfile(name="a", engine=Engine.VLLM)

    assert (profile.drain_seconds, WarmingSettings().system_prompts) == (30, 8)
