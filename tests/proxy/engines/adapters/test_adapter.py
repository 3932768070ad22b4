import pytest
from hypothesis import given

from proxy.engines.adapters.adapter import parse_version
from proxy.engines.adapters.attach_only import SGLANG
from proxy.engines.adapters.by_engine import ADAPTERS
from proxy.engines.adapters.vllm import VLLM
from proxy.engines.profiles import Engine, EngineProfile
from tests.fakes.engine_profiles import a_profile, launchable_profiles


@given(launchable_profiles())
def test_every_flag_of_any_valid_profile_has_a_reason_and_no_part_is_empty(profile):
    adapter = ADAPTERS[profile.engine]
    for replica in range(profile.replicas):
        command = adapter.launch_command(profile, replica)

        assert all(command.argv)
        assert all(flag.argv and flag.reason.endswith(".") for flag in command.flags)
        assert str(profile.port + replica) in command.argv
        assert all(command.env.values())


@given(launchable_profiles())
def test_no_flag_of_any_valid_profile_is_written_twice(profile):
    command = ADAPTERS[profile.engine].launch_command(profile)
    flags = [part for flag in command.flags for part in flag.argv if part.startswith("--")]

    assert len(flags) == len(set(flags))


def test_a_replica_answers_at_its_own_port():
    profile = a_profile('host = "0.0.0.0"\nreplicas = 2')

    assert VLLM.urls(profile, 1) == (
        "http://127.0.0.1:8001/v1",
        "http://127.0.0.1:8001/health",
        "http://127.0.0.1:8001/metrics",
    )
    assert VLLM.urls(a_profile('host = "::"')).base_url == "http://[::1]:8000/v1"


def test_attached_replicas_keep_the_path_before_v1():
    profile = a_profile('replicas = ["https://gpu/llm/v1"]', engine="sglang")

    assert SGLANG.urls(profile).health_url == "https://gpu/llm/health"


def test_attached_replicas_are_not_launched():
    profile = a_profile('replicas = ["https://gpu/v1"]')

    with pytest.raises(ValueError, match="attached, not started"):
        VLLM.launch_command(profile)


def test_the_profile_adds_its_arguments_and_overrides_the_environment():
    profile = a_profile(
        'extra_args = ["--seed", "1"]\nenv = { VLLM_NO_USAGE_STATS = "0" }\n'
        "start_seconds = 90\ndrain_seconds = 5"
    )
    command = VLLM.launch_command(profile)

    assert command.argv[-2:] == ("--seed", "1")
    assert command.env == {"VLLM_NO_USAGE_STATS": "0"}
    assert (command.start_seconds, command.drain_seconds) == (90.0, 5.0)


@pytest.mark.parametrize("version", ["", "0.20", "0.20.3", "0.33.1", "v0.27.1+cpu"])
def test_versions_that_are_known_have_no_note(version):
    assert VLLM.version_note(EngineProfile(name="a", engine=Engine.VLLM, version=version)) == ""


@pytest.mark.parametrize("version", ["0.19.1", "0.34", "1.0"])
def test_other_versions_degrade_with_a_reason(version):
    note = VLLM.version_note(EngineProfile(name="a", engine=Engine.VLLM, version=version))

    assert note.startswith(f"vllm {version} is outside 0.20 to 0.33")
    assert "by their load alone" in note


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0.32.0+cpu", (0, 32, 0)), ("b11549", (11549,)), ("v1.2.0", (1, 2, 0)), ("1.2rc1", (1,))],
)
def test_versions_are_compared_by_their_numbers(text, numbers):
    assert parse_version(text) == numbers
