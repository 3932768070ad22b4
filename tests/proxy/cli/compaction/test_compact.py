"""The command as a person types it."""

from pathlib import Path
from typing import Any

import orjson
import pytest
import typer
from typer.testing import CliRunner, Result

from proxy.cli.compaction import compact
from proxy.cli.terminal import Terminal
from tests.fakes.cli_runner import CommandRunner
from tests.proxy.cli.compaction.test_dry_run import TOOLS, talk
from tests.proxy.tools.replay.scene import CATALOG


def build(terminal: Terminal) -> typer.Typer:
    line = typer.Typer(pretty_exceptions_enable=False)
    line.callback()(lambda: None)
    line.command("compact")(compact.compact(terminal, lambda: CATALOG))
    return line


@pytest.fixture
def runner(tmp_path: Path) -> CommandRunner:
    return CommandRunner(tmp_path, 1_790_000_000.0)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return write_conversation(tmp_path, talk())


def write_conversation(folder: Path, messages: list[dict[str, Any]]) -> str:
    path = folder / "talk.json"
    path.write_bytes(orjson.dumps({"messages": messages, "tools": TOOLS}))
    return str(path)


WORDS = ("--model", "breakpoints")
SPEAKERS = ("user", "assistant")


def test_a_person_is_told_what_became_of_it(runner, file):
    output = runner.said(build, "compact", file, "--force", *WORDS)

    lines = output.splitlines()
    assert lines[0].startswith("breakpoints: ")
    assert "→" in lines[0]
    assert "(−" in lines[0]  # noqa: RUF001
    assert lines[1].startswith("Compacted: facts stand for ")
    assert lines[1].endswith("it was asked for, whether it pays or not.")
    assert lines[2].startswith("The compaction pays itself back in ")
    assert lines[2].endswith(" calls, this one included; 19 were made so far.")
    assert "  rule (1)" in lines
    assert "    [1] Never write to ann@example.com." in lines
    assert "What would be sent (" in output
    assert "get_order({" in output
    assert "Lost" in lines[-2]
    assert "the best simple way in as many tokens (" in lines[-1]


def test_a_conversation_that_stays_is_told_with_the_reason(runner, tmp_path):
    output = runner.said(build, "compact", write_conversation(tmp_path, talk(0)), *WORDS)

    assert "Not compacted: " in output
    assert output.endswith("It would be sent unmodified.\n")
    assert "Facts" not in output


def test_results_said_shorter_are_kept_apart_from_a_compaction(runner, file):
    output = runner.said(build, "compact", file, "--mode", "trim", *WORDS)

    assert "Trimmed: tool results are shortened without loss. Not compacted: trim goes no" in output
    assert "more" in output


def test_json_is_one_document_with_the_names_that_were_promised(runner, file):
    output = runner.said(build, "compact", file, "--json", "--force", *WORDS)

    document = orjson.loads(output)
    assert output.count("\n") == 1
    assert document["compacted"] is True
    assert document["reason"] == "forced"
    assert document["tokens_after"] < document["tokens_before"]
    assert {"kind", "text", "turns"} <= document["facts"][0].keys()
    assert {"messages", "mode", "break_even", "segments", "lost"} <= document.keys()


def test_options_reach_the_policy(runner, file):
    def count_messages(*words: str) -> int:
        document = orjson.loads(runner.said(build, "compact", file, "--json", "--force", *words))
        return len(document["messages"])

    assert count_messages(*WORDS, "--keep-turns", "1") < count_messages(*WORDS, "--keep-turns", "5")


def test_a_target_is_come_down_to(runner, file):
    def after(*words: str) -> int:
        document = orjson.loads(runner.said(build, "compact", file, "--json", "--force", *words))
        return int(document["tokens_after"])

    assert after(*WORDS, "--target-tokens", "500") <= after(*WORDS)


def test_a_terminal_gets_no_escape_codes_of_a_tools_text(runner, tmp_path):
    messages = [*talk(), {"role": "user", "content": "red \x1b[31m text \x07"}]
    output = runner.said(
        build, "compact", write_conversation(tmp_path, messages), "--force", *WORDS
    )

    assert "\x1b[31m" not in output
    assert "\x07" not in output


def test_lost_values_are_named_and_counted():
    many = tuple(f"value-{n}" for n in range(20))

    assert "(20): value-0, " in compact._lost_line(many)
    assert compact._lost_line(many).endswith("value-11 and 8 more.")
    assert "(1,000 or more): " in compact._lost_line(many * 50)
    assert compact._lost_line(()) == (
        "Lost: nothing. Every value, name, failure and answer still stands."
    )


def test_a_message_of_an_unknown_shape_is_shown_all_the_same():
    assert compact._role_and_text(b'{"role":7}') == ("", '{"role":7}')
    assert compact._role_and_text(b'{"role":"user","content":[{"type":"image_url"}]}') == (
        "user",
        "image_url",
    )


@pytest.mark.parametrize(
    ("raw", "why"), [(b"junk", "is not valid JSON: "), (b"[1]", "is not a JSON object; expected")]
)
def test_a_file_that_holds_no_conversation_fails_with_a_sentence(runner, tmp_path, raw, why):
    path = tmp_path / "talk.json"
    path.write_bytes(raw)

    failed = runner.error_of(build, "compact", str(path), *WORDS)
    assert failed.startswith(f"{path} {why}")
    assert failed.endswith(".")


def shell(*words: str, stdin: bytes = b"") -> Result:
    from proxy.cli.main import _commands  # noqa: PLC0415 - the whole gateway is behind it

    return CliRunner().invoke(_commands, ["compact", *words], input=stdin)


def test_the_gateways_own_command_line_has_it_and_reads_what_is_piped():
    body = orjson.dumps({"messages": talk(), "model": "x", "temperature": 0})
    document = orjson.loads(shell("-", "--json", "--force", stdin=body).stdout)

    assert document["model"] == "gpt-5.6-terra"
    assert document["compacted"] is True
    piped = shell("-", stdin=b"{")
    assert piped.exit_code == 1
    assert "stdin is not valid JSON" in piped.stderr


@pytest.mark.parametrize(
    ("options", "model"),
    [((), "claude-sonnet-5-5"), (("--model", "gpt-5.6-terra"), "gpt-5.6-terra")],
    ids=["of the file", "of the option"],
)
def test_conversation_is_priced_for_the_files_own_model_unless_the_option_names_one(options, model):
    body = orjson.dumps({"messages": talk(), "model": "claude-sonnet-5-5"})

    document = orjson.loads(shell("-", "--json", *options, stdin=body).stdout)

    assert document["model"] == model


@pytest.mark.parametrize(
    "words",
    [
        ("/nowhere/talk.json",),
        ("-", "--mode", "magic"),
        ("-", "--model", "gtp"),
        ("-", "--keep-turns", "-1"),
        ("-", "--target-tokens", "few"),
    ],
)
def test_a_mistyped_option_is_refused(words):
    assert shell(*words, stdin=b"{}").exit_code == 2


def test_a_model_near_the_one_that_was_typed_is_named():
    assert "gpt-5.6-terra" in shell("-", "--model", "gpt-5.6-tera", stdin=b"{}").stderr
    assert "the catalog has" in shell("-", "--model", "zzz", stdin=b"{}").stderr


def test_the_decision_of_a_model_that_binds_its_thinking_depends_on_what_the_caller_sends_back():
    signed = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    told = [{**m, "thinking_blocks": signed} if m["role"] == "assistant" else m for m in talk()]

    def outcome(messages: list[dict[str, Any]], model: str) -> tuple[str, bool]:
        body = orjson.dumps({"messages": messages})
        document = orjson.loads(
            shell("-", "--model", model, "--force", "--json", stdin=body).stdout
        )
        return document["reason"], document["compacted"]

    assert outcome(talk(), "claude-sonnet-5-5") == ("forced", True)
    assert outcome(told, "claude-sonnet-5-5") == ("signed", False)
    assert outcome(told, "claude-opus-4-8") == ("forced", True)


def test_a_target_that_cannot_be_met_is_reported(runner, file):
    output = runner.said(build, "compact", file, "--force", "--target-tokens", "30", *WORDS)
    document = orjson.loads(
        runner.said(build, "compact", file, "--force", "--target-tokens", "30", "--json", *WORDS)
    )

    assert "The target of 30 tokens was missed by " in output
    assert document["target_missed"] == document["tokens_after"] - 30
    assert f"and the last turns alone weigh {document['kept_tokens']:,}." in output


def test_the_screen_shows_no_secret_of_what_would_be_sent(runner, tmp_path):
    call = {"name": "login", "arguments": '{"password": "hunter2hunter2"}'}
    chat: list[dict[str, Any]] = [
        {"role": "user", "content": "Log in"},
        {
            "role": "assistant",
            "tool_calls": [{"id": "a", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": "a", "content": '{"access_token": "q9Zk27xPfLm3"}'},
        *({"role": role, "content": "Well. " * 99} for _ in range(5) for role in SPEAKERS),
        {"role": "user", "content": "And?"},
    ]
    path = write_conversation(tmp_path, chat)

    output = runner.said(build, "compact", path, "--force", *WORDS)
    document = orjson.loads(runner.said(build, "compact", path, "--force", "--json", *WORDS))

    assert "hunter2hunter2" not in output
    assert "q9Zk27xPfLm3" not in output
    assert "access_token" in output
    assert "q9Zk27xPfLm3" in str(document["messages"])


def test_a_message_that_is_no_object_fails(runner, tmp_path):
    path = tmp_path / "talk.json"
    path.write_bytes(b'{"messages":[{"role":"user","content":"Hi"},3]}')

    failed = runner.error_of(build, "compact", str(path), *WORDS)
    assert failed == f"{path} is invalid: messages[1] is not an object."


@pytest.mark.skipif(not Path("/proc/self/mem").is_file(), reason="this system has no /proc")
def test_a_file_that_cannot_be_read_fails_with_a_sentence(runner):
    failed = runner.error_of(build, "compact", "/proc/self/mem", *WORDS)

    assert failed.startswith("/proc/self/mem cannot be read: ")
