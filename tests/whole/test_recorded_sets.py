"""Recorded prompts in five foreign forms, as lines for ``thriftgate replay``."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from proxy.tools.replay.logs.records import recorded_calls
from proxy.tools.replay.recorded_call import RecordedCall
from tests.bench.recorded import KINDS, lines
from tests.fakes.recorded import FOLDER

SETS = {
    "swe-agent": FOLDER / "SWE-agent+SWE-agent",
    "openhands": FOLDER / "All-Hands-AI+OpenHands",
    "openhands-sdk": FOLDER / "OpenHands+software-agent-sdk",
    "gorilla": FOLDER / "ShishirPatil+gorilla",
    "pi-mono": FOLDER / "badlogic+pi-mono",
}


def put(file: Path, *rows: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"\n".join(orjson.dumps(row) for row in rows))


def found(kind: str, path: Path) -> list[dict[str, Any]]:
    return list(lines(KINDS[kind](path)))


def said(call: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in call["body"]["messages"]]


def trajectory(**more: Any) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    return {
        "history": [
            {"role": "system", "content": "Rules."},
            {"role": "user", "content": "An issue."},
            {"role": "assistant", "content": "Look.", "tool_calls": [call], "thought": "Look."},
            {"role": "tool", "content": "a\nb", "tool_call_ids": ["1"]},
            {"role": "assistant", "content": "Again."},
            {"role": "user", "content": "c"},
            {"role": "assistant", "content": "Done."},
        ],
        **more,
    }


def test_a_trajectory_is_a_call_for_each_answer_with_all_before_it(tmp_path):
    put(tmp_path / "ctf/one.traj", trajectory())

    first, second, third = found("swe-agent", tmp_path)

    assert said(first) == [("system", "Rules."), ("user", "An issue.")]
    assert first["reply"]["tool_calls"] == second["body"]["messages"][2]["tool_calls"]
    assert second["body"]["messages"][3] == {"role": "tool", "content": "a\nb", "tool_call_id": "1"}
    assert third["body"]["messages"][:4] == second["body"]["messages"]
    assert [call["t"] for call in (first, second, third)] == [0.0, 4.0, 8.0]
    assert {call["conversation"] for call in (first, second, third)} == {"ctf/one.traj"}


def test_a_trajectory_forgets_what_its_configuration_makes_it_forget(tmp_path):
    keeps = {"agent": {"history_processors": [{"type": "last_n_observations", "n": 1}]}}
    put(tmp_path / "one.traj", trajectory(replay_config=keeps))

    *_, third = found("swe-agent", tmp_path)

    assert said(third)[1] == ("user", "An issue.")
    assert said(third)[3] == ("tool", "Old environment output: (2 lines omitted)")
    assert said(third)[5] == ("user", "c")


def test_a_flattened_prompt_gets_its_roles_back(tmp_path):
    folder = tmp_path / "mock/Coder/test_edits"
    folder.mkdir(parents=True)
    for name, text in {
        "prompt_001": "Rules.|Task.",
        "response_001": "Let's see.\n\n<run>\nls",
        "prompt_002": "|Rules.|Task.|Let's see.\n<run>\nls\n</run>|OBSERVATION:\nfile",
        "response_002": "Done.",
        "prompt_003": "All in one: Let's see.\n<run>\nls",
        "response_003": "",
    }.items():
        (folder / f"{name}.log").write_text(text.replace("|", "\n\n----------\n\n"))

    first, second, third = found("openhands", tmp_path)

    assert said(first) == [("system", "Rules."), ("user", "Task.")]
    assert [role for role, _ in said(second)] == ["system", "user", "assistant", "user"]
    assert [role for role, _ in said(third)] == ["user"]
    assert first["reply"] == {"role": "assistant", "content": "Let's see.\n\n<run>\nls"}
    assert (first["conversation"], first["feature"]) == ("mock/Coder/test_edits", "Coder")


def test_a_logged_request_is_sent_as_it_was_when_it_was(tmp_path):
    for began in (107.5, 103.0):
        put(
            tmp_path / f"llm-logs/model-{began}.000.json",
            {
                "messages": [{"role": "user", "content": "Hello."}],
                "kwargs": {"temperature": 0.0, "extra_body": {"metadata": {}}},
                "response": {"choices": [{"message": {"role": "assistant", "content": "Hi.",
                                                      "tool_calls": None}}]},
                "timestamp": began,
                "latency_sec": 1.5,
            },
        )  # fmt: skip

    first, second = found("openhands-sdk", tmp_path)

    assert (first["t"], second["t"]) == (0.0, 4.5)
    assert first["body"]["temperature"] == 0.0
    assert "extra_body" not in first["body"]
    assert first["reply"] == {"role": "assistant", "content": "Hi."}


def test_a_case_is_its_first_request_with_the_tools_it_is_offered(tmp_path):
    def doc(name: str) -> dict[str, Any]:
        of = {"type": "dict", "properties": {"n": {"type": "float"}}, "required": []}
        return {"name": name, "description": "It.", "parameters": of, "response": {"type": "dict"}}

    put(tmp_path / "data/multi_turn_func_doc/math_api.json", doc("add"), doc("mean"))
    put(
        tmp_path / "data/BFCL_v4_multi_turn_miss_func.json",
        {
            "id": "multi_turn_miss_func_0",
            "question": [[{"role": "user", "content": "Add."}], []],
            "involved_classes": ["MathAPI"],
            "missed_function": {"1": ["mean"]},
        },
    )

    (only,) = found("gorilla", tmp_path)

    assert said(only) == [("user", "Add.")]
    (tool,) = only["body"]["tools"]
    assert tool["function"]["name"] == "add"
    assert tool["function"]["parameters"]["type"] == "object"
    assert tool["function"]["parameters"]["properties"]["n"]["type"] == "number"
    assert tool["function"]["description"].endswith('schema: {"type": "dict"}')
    assert (only["feature"], only["reply"]) == ("multi_turn_miss_func", None)


def test_a_session_is_put_into_chat_form_without_what_was_left_unanswered(tmp_path):
    def text(words: str) -> dict[str, str]:
        return {"type": "text", "text": words}

    def call(name: str) -> dict[str, Any]:
        return {"type": "toolCall", "id": name, "name": "read", "arguments": {"path": name}}

    def row(role: str, moment: int, *content: Any, prompt: int = 0, **more: Any) -> dict[str, Any]:
        usage = {"input": prompt, "cacheRead": 0, "cacheWrite": 0}
        message = {"role": role, "content": content, "timestamp": moment, "usage": usage, **more}
        return {"type": "message", "message": message}

    put(
        tmp_path / "session.jsonl",
        {"type": "session", "id": "s1"},
        row("user", 1_000, text("Read.")),
        row("assistant", 2_000, text("I do."), call("a"), prompt=10),
        row("toolResult", 3_000, text("Words."), toolCallId="a"),
        row("assistant", 4_500, call("b"), prompt=20),
        row("user", 5_000, text("Go on.")),
        row("assistant", 6_000),
        row("assistant", 7_000, {"type": "thinking", "thinking": "Hm."}, text("Yes."), prompt=30),
    )

    first, second, third = found("pi-mono", tmp_path)

    assert [call["t"] for call in (first, second, third)] == [0.0, 2.5, 5.0]
    assert said(third) == [("user", "Read."), ("assistant", "I do."), ("tool", "Words."),
                           ("user", "Go on.")]  # fmt: skip
    assert third["body"]["messages"][1]["tool_calls"][0]["function"] == {
        "name": "read",
        "arguments": '{"path":"a"}',
    }
    assert third["reply"] == {"role": "assistant", "content": "Yes."}


@pytest.mark.parametrize("kind", ["swe-agent", "openhands", "openhands-sdk", "gorilla"])
def test_recorded_sets_can_be_replayed(kind):
    if not SETS[kind].exists():
        pytest.skip(f"no recordings at {SETS[kind]}")
    replayed = [call for row in found(kind, SETS[kind]) for call in recorded_calls(row)]

    assert replayed
    assert all(isinstance(call, RecordedCall) and call.conversation for call in replayed)


def test_trajectories_forget_as_the_recorded_prompts_did():
    name = "replay__marshmallow-code__marshmallow-1867__function_calling_replace_from_source"
    files = list(SETS["swe-agent"].rglob(f"{name}/*.traj"))
    if not files:
        pytest.skip(f"no recordings at {SETS['swe-agent']}")
    prompts = [said(call) for call in found("swe-agent", files[0].parent)]
    steps = orjson.loads(files[0].read_bytes())["trajectory"]
    recorded = [
        [(message["role"], message["content"]) for message in step["messages"]] for step in steps
    ]

    assert prompts[1:] == recorded[:-1]
