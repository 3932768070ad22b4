"""The cases of the GPU bench as profiles of vLLM; the bench itself needs a GPU."""

import json
from pathlib import Path

import pytest

from proxy.engines.adapters.launch_command import LaunchCommand
from proxy.engines.adapters.vllm import VLLM
from proxy.engines.profile_file import parse_profiles
from tests.bench.gpu_engine_cases import CASES, engines_text, write_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


def command_of(name: str, folder: Path) -> LaunchCommand:
    text = engines_text(
        CASES[name],
        write_models(folder, folder / "trained"),
        port=8195,
        program=["vllm", "serve"],
        version="0.23",
        env={"HF_HUB_OFFLINE": "1"},
        extra_args=["--seed", "1"],
    )
    return VLLM.launch_command(parse_profiles(text, "engines.toml")["chat"])


@pytest.mark.parametrize("name", CASES)
def test_every_case_is_a_profile_whose_draft_is_beside_its_model(name, folder):
    command = command_of(name, folder)
    argv = command.argv

    assert "{draft}" not in " ".join(argv)
    assert command.env["HF_HUB_OFFLINE"] == "1"
    assert ("dummy" in argv) is not CASES[name].is_trained
    if "--speculative-config" in argv:
        settings = json.loads(argv[argv.index("--speculative-config") + 1])
        assert Path(settings.get("model", argv[2])).parent == Path(argv[2]).parent


def test_synthetic_acceptance_falls_by_position_as_it_does_where_each_accepts_alike(folder):
    argv = command_of("draft-synthetic", folder).argv
    settings = json.loads(argv[argv.index("--speculative-config") + 1])

    assert settings["synthetic_acceptance_rates"] == [0.8, 0.64, 0.512, 0.4096]


def test_the_large_shape_has_a_token_for_each_word_that_it_can_write(folder):
    models = write_models(folder, None)
    config = json.loads((models.large / "config.json").read_text())
    tokenizer = json.loads((models.large / "tokenizer.json").read_text())
    ids = {
        *tokenizer["model"]["vocab"].values(),
        *(token["id"] for token in tokenizer["added_tokens"]),
    }

    assert ids == set(range(config["vocab_size"]))
