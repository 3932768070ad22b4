import pytest

from proxy.engines.adapters.launch_command import LaunchCommand, LaunchFlag
from proxy.engines.adapters.llamacpp import LLAMACPP
from proxy.engines.adapters.vllm import VLLM
from proxy.engines.supervision.unknown_flags import flags_left_out, unknown_flags, without_flags
from tests.fakes.engine_profiles import a_profile


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (
            "vllm serve: error: unrecognized arguments: --performance-mode interactivity --x=1",
            {"--performance-mode", "--x"},
        ),
        ("(APIServer pid=7) s.py: error: unrecognized arguments: --x", {"--x"}),
        ("s.py: error: argument -O/--mode: invalid choice: 'q' (choose from 'a')", {"--mode"}),
        ("error: invalid argument: --no-such", {"--no-such"}),
        (
            'error while handling argument "--draft-max": the argument has been removed.',
            {"--draft-max"},
        ),
        ("ValueError: No available memory for the cache blocks --x", set()),
        ("s.py: error: argument --port: invalid int value: 'x'", set()),
    ],
)
def test_unknown_flags_are_read_from_what_an_engine_says_as_it_ends(line, names):
    assert unknown_flags(["loading --model", line, "bye"]) == names


def command_of(*flags: LaunchFlag) -> LaunchCommand:
    return LaunchCommand(program=("e",), flags=flags, base_url="", health_url="")


def test_a_flag_that_the_profile_adds_itself_or_that_is_not_there_cannot_be_left_out():
    command = command_of(
        LaunchFlag(argv=("--a", "1"), reason="It helps.", feature="a"),
        LaunchFlag(argv=("--own",), reason="The profile adds it in extra_args."),
    )

    assert without_flags(command, frozenset({"--own"})) is None
    assert without_flags(command, frozenset({"--own", "--a"})) is None
    assert without_flags(command, frozenset({"--other"})) is None
    assert without_flags(command, frozenset()) is None


def test_flags_left_out_are_named_with_their_reason():
    flag = LaunchFlag(argv=("--a", "1"), reason="It helps.", feature="a")
    command = command_of(flag)
    fewer = without_flags(command, frozenset({"--a"}))

    assert fewer is not None
    assert fewer.argv == ("e",)
    assert flags_left_out(command, fewer) == ("--a 1 (It helps)",)


@pytest.mark.parametrize("adapter", [VLLM, LLAMACPP], ids=["vllm", "llamacpp"])
def test_flags_that_change_answers_or_addresses_are_never_left_out(adapter):
    text = 'max_model_len = 4096\nreasoning_parser = "deepseek"\nkv_dtype = "int8"\n'
    profile = a_profile(f'{text}speculative = {{ method = "ngram" }}', str(adapter.engine))
    command = adapter.launch_command(profile)
    names = {flag.argv[0] for flag in command.flags if not flag.feature}

    assert {"--host", "--reasoning-parser", "--reasoning-format"} & names
    assert names & {"--max-model-len", "--ctx-size"}
    assert names & {"--kv-cache-dtype", "--cache-type-k"}
    for name in names:
        assert without_flags(command, frozenset({name})) is None


@pytest.mark.parametrize("adapter", [VLLM, LLAMACPP], ids=["vllm", "llamacpp"])
def test_an_engine_without_speculation_runs_without_all_of_its_flags(adapter):
    profile = a_profile('speculative = { method = "ngram" }', str(adapter.engine))
    command = adapter.launch_command(profile)
    fewer = without_flags(command, frozenset({"--spec-type", "--speculative-config"}))

    assert fewer is not None
    assert fewer.speculation == "none"
    assert "--spec" not in " ".join(fewer.argv).replace("--per-request-spec", "")


def test_a_scheduling_policy_stays_where_calls_are_sent_with_a_priority():
    for hints, can_go in (("", True), ('hints = ["vllm"]', False)):
        command = VLLM.launch_command(a_profile(f'goal = "latency"\n{hints}'))

        assert (without_flags(command, frozenset({"--scheduling-policy"})) is not None) is can_go
