import json
import shlex

import pytest

from proxy.cli.engines.engines import engines
from proxy.settings import Settings
from tests.fakes.admission_harness import NOW
from tests.fakes.cli_runner import CommandRunner

PROFILES = """
[engines.house]
engine = "vllm"
model = "org/m"
replicas = 2
env = { HF_TOKEN = "s3cret", NOTE = "two words" }

[engines.remote]
engine = "sglang"
served_name = "m"
replicas = ["http://gpu:30000"]
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "engines.toml"
    path.write_text(PROFILES)
    return path


@pytest.fixture
def runner(tmp_path):
    return CommandRunner(tmp_path, NOW)


def group(terminal):
    return engines(terminal, Settings)


def test_plan_prints_the_command_as_a_shell_takes_it(runner, file):
    output = runner.said(group, "plan", "house", "--file", str(file))
    command = output.split("\n\n")[1]
    words = shlex.split(command)

    assert words[:5] == [
        "VLLM_NO_USAGE_STATS=1",
        "CUDA_VISIBLE_DEVICES=0",
        "HF_TOKEN=…",
        "NOTE=two words",
        "vllm",
    ]
    assert words[words.index("--port") :][:2] == ["--port", "8000"]
    assert "house: org/m on vllm 0.33, 2 replicas" in output
    assert "replica 1: http://127.0.0.1:8001/v1" in output


def test_plan_says_why_each_flag_is_there(runner, file):
    output = runner.said(group, "plan", "house", "--file", str(file))

    assert "--enable-prefix-caching\n    A prefix seen before is not computed again.\n" in output


def test_plan_prints_one_json_document_of_all_replicas(runner, file):
    plan = json.loads(runner.said(group, "plan", "house", "--file", str(file), "--json"))
    first, second = plan["replicas"]

    assert (plan["profile"], plan["engine"], plan["attached"]) == ("house", "vllm", False)
    assert first["argv"][:3] == ["vllm", "serve", "org/m"]
    assert second["base_url"] == "http://127.0.0.1:8001/v1"
    assert first["env"]["HF_TOKEN"] == "…"
    assert [part for flag in first["flags"] for part in flag["argv"]] == first["argv"][3:]


def test_plan_of_attached_replicas_shows_where_they_answer(runner, file):
    output = runner.said(group, "plan", "remote", "--file", str(file))
    plan = json.loads(runner.said(group, "plan", "remote", "--file", str(file), "--json"))

    assert "Others run its replicas; nothing is started." in output
    assert "started with --enable-metrics --enable-cache-report." in output
    assert "http://gpu:30000/metrics" in output
    assert (plan["attached"], list(plan["replicas"][0])) == (
        True,
        ["base_url", "health_url", "metrics_url"],
    )


def test_plan_warns_of_a_version_that_is_not_known(runner, file):
    file.write_text(PROFILES.replace('model = "org/m"', 'model = "org/m"\nversion = "0.40"'))

    assert "Warning: vllm 0.40 is outside" in runner.said(
        group, "plan", "house", "--file", str(file)
    )


def test_an_unknown_profile_is_answered_with_the_nearest(runner, file):
    output = runner.error_of(group, "plan", "hause", "--file", str(file))

    assert output == "There is no engine profile hause: did you mean house?"


def test_the_settings_name_the_engines_file(runner, file):
    with_file = lambda terminal: engines(terminal, lambda: Settings(engines=file))  # noqa: E731

    assert "house" in runner.said(with_file, "plan", "house")


def test_without_a_file_the_command_says_how_to_name_one(runner):
    assert "THRIFTGATE_ENGINES or --file names one" in runner.error_of(group, "plan", "house")
    assert "--spec-type draft-simple" in runner.said(group, "plan", "local", "--examples")


def test_a_file_that_is_absent_or_invalid_is_named(runner, file):
    gone = file.with_name("gone.toml")

    assert f"{gone} cannot be read: No such file" in runner.error_of(
        group, "plan", "house", "--file", str(gone)
    )
    file.write_text("[engines.house]\nengine = 3\n")
    assert f"{file}:2: engines.house.engine: is 3" in runner.error_of(
        group, "plan", "house", "--file", str(file)
    )
    file.write_bytes(b"\xff")
    assert "is not UTF-8" in runner.error_of(group, "plan", "house", "--file", str(file))


def test_serving_attached_replicas_is_refused(runner, file):
    output = runner.error_of(group, "serve", "remote", "--file", str(file))

    assert output == "Others run the replicas of remote: its profile lists their URLs."


def test_serving_an_engine_that_is_not_installed_says_what_to_install(
    runner, file, tmp_path, monkeypatch
):
    monkeypatch.setenv("PATH", str(tmp_path))
    own = lambda terminal: engines(terminal, lambda: Settings(folder=tmp_path / "data"))  # noqa: E731

    why = runner.error_of(own, "serve", "house", "--file", str(file))

    assert why.startswith("vllm is not installed or not on the PATH: install it with `pip install")
    assert "vllm is not installed" in runner.said(own, "plan", "house", "--file", str(file))
    plan = json.loads(runner.said(own, "plan", "house", "--file", str(file), "--json"))
    assert any("vllm is not installed" in note for note in plan["notes"])


def test_a_program_that_ends_at_once_is_told_by_status(runner, file, tmp_path):
    program = tmp_path / "llama-server"
    program.write_text("#!/no/such/interpreter\n")
    program.chmod(0o755)
    file.write_text(f'[engines.house]\nengine = "llamacpp"\nmodel = "m"\nprogram = "{program}"\n')
    own = lambda terminal: engines(terminal, lambda: Settings(folder=tmp_path / "data"))  # noqa: E731

    output, _ = runner.failure_of(own, "serve", "house", "--file", str(file))
    shown = json.loads(runner.said(own, "status", "--json"))

    assert "No replica is left" in output
    assert shown["engines"][0]["profile"] == "house"
    assert shown["engines"][0]["is_running"] is False
    assert shown["engines"][0]["is_stale"] is True
    assert str(program) in shown["engines"][0]["replicas"][0]["reason"]
