import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compaction.reading.harness_results import (
    assign_voices,
    looks_like_result,
    pair_call_with_result,
)
from compaction.reading.message import CalledTool, Voice
from compaction.reading.turns import split_units
from tests.compaction.reading.conversations import (
    assistant,
    messages,
    result,
    system,
    tool_calls,
    user,
)

RECORDED = Path(__file__).resolve().parents[4] / "shared" / "data" / "A" / "SWE-agent+SWE-agent"
BASH = "I look.\n```bash\nls -la\n```"
SHELL = CalledTool("", "shell", "ls -la")
PROMPT = "\n(Open file: n/a)\n(Current directory: /repo)\nbash-$"


def voices_of(*chat):
    return assign_voices(messages(chat))


@pytest.mark.parametrize(
    ("call_text", "result_text", "called"),
    [
        (BASH, "a.py" + PROMPT, SHELL),
        ("I look.\n<command>\nls -la\n</command>", "a.py" + PROMPT, SHELL),
        (BASH, "OBSERVATION:\na.py", SHELL),
        (BASH, "Old environment output: (12 lines omitted)", SHELL),
        (BASH, "<returncode>0</returncode>\n<output>\na.py\n</output>", SHELL),
        (BASH, "The last command <command>ls -la</command> timed out and has been killed.", SHELL),
        ("```mswea_bash_command\nls -la\n```", "<returncode>0</returncode>", SHELL),
        ("```\nwrong\n```\nno, I mean\n```\nls -la\n```", "OBSERVATION:\na.py", SHELL),
        ("```ls -la```", "OBSERVATION:\na.py", SHELL),
        ("Code:\n```py\nprint(1)\n```", "Observation:\n1", CalledTool("", "python", "print(1)")),
        ("So:\n<execute_bash>\nls -la\n</execute_bash>", "OBSERVATION:\na.py", SHELL),
        ("So:\n<execute_bash>\nls -la", "OBSERVATION:\na.py", SHELL),
        (
            "<execute_ipython>\nprint(1)\n</execute_ipython>",
            "OBSERVATION:\n1",
            CalledTool("", "python", "print(1)"),
        ),
        (
            "<function=view>\n<parameter=path>a.py</parameter>\n</function>",
            "EXECUTION RESULT of [view]:\nx = 1",
            CalledTool("", "view", "<parameter=path>a.py</parameter>"),
        ),
        ("<function=finish>\n", "EXECUTION RESULT of [finish]:", CalledTool("", "finish", "")),
        (
            "Thought: look\nAction: search\nAction Input: pairs",
            "Observation: none",
            CalledTool("", "search", "pairs"),
        ),
        ("Action: stop", "Observation: none", CalledTool("", "stop", "")),
        (
            '<tool_call>\n{"name": "find", "arguments": {"id": 1}}\n</tool_call>',
            "<tool_response>\n{}\n</tool_response>",
            CalledTool("", "find", '{"id": 1}'),
        ),
        (
            "<tool_call>find it</tool_call>",
            "<tool_response>none</tool_response>",
            CalledTool("", "tool", "find it"),
        ),
        (
            '<function_calls>\n<invoke name="find">\n<id>1</id>\n</invoke>',
            "<function_results>none</function_results>",
            CalledTool("", "find", "<id>1</id>"),
        ),
        (
            "<read_file>\n<path>a.py</path>\n</read_file>",
            "[read_file for 'a.py'] Result:\nx = 1",
            CalledTool("", "read_file", "<path>a.py</path>"),
        ),
    ],
)
def test_a_harness_answer_is_the_result_of_the_command_before_it(call_text, result_text, called):
    parsed = voices_of(user("Mend it."), assistant(call_text), user(result_text))

    assert [one.voice for one in parsed] == [Voice.USER, Voice.ASSISTANT, Voice.RESULT]
    assert parsed[1].calls == (called,)
    assert [(unit.start, unit.end) for unit in split_units(parsed)] == [(0, 1), (1, 3)]


@pytest.mark.parametrize(
    ("call_text", "reply_text"),
    [
        (BASH, "Thank you. Now the tests."),
        (BASH, "I see bash-$"),
        (BASH, "[read_file for 'a.py'] Result:\nx = 1"),
        (BASH, "[1] is wrong"),
        (BASH, "[x for 'a']"),
        (BASH, "<tool_response>none</tool_response>"),
        (BASH, "EXECUTION RESULT of [view]:\nx = 1"),
        (BASH, "<function_results>none</function_results>"),
        ("I look.", "OBSERVATION:\na.py"),
        ("One ``` alone", "OBSERVATION:\na.py"),
        ("I look.", "Observation: it is wrong"),
        (BASH, "Observation: it is wrong"),
        ("<function=", "EXECUTION RESULT of [view]:\nx = 1"),
        ("<tool_call", "<tool_response>none</tool_response>"),
    ],
)
def test_without_a_command_and_the_frame_that_goes_with_it_a_person_speaks(call_text, reply_text):
    parsed = voices_of(user("Mend it."), assistant(call_text), user(reply_text))

    assert parsed[2].voice is Voice.USER
    assert parsed[1].calls == ()


def test_the_first_user_message_is_never_a_result():
    parsed = voices_of(system(BASH), user("OBSERVATION:\na.py"))

    assert parsed[1].voice is Voice.USER


def test_a_result_follows_its_command_at_once():
    observation = user("OBSERVATION:\na.py")
    parsed = voices_of(
        user(), assistant(BASH), observation, observation, assistant(BASH), system(), observation
    )

    assert [one.voice is Voice.RESULT for one in parsed] == [False, False, True] + [False] * 4


def test_from_the_first_tool_call_on_users_are_users():
    parsed = voices_of(
        user(),
        assistant(BASH),
        user("OBSERVATION:\na.py"),
        tool_calls("a"),
        result("a"),
        assistant(BASH),
        user("OBSERVATION:\na.py"),
    )

    assert [one.voice for one in parsed][2::4] == [Voice.RESULT, Voice.USER]
    assert parsed[1].calls == (SHELL,)
    assert parsed[5].calls == ()


TALK = st.lists(
    st.sampled_from(
        [user("Thanks"), user("OBSERVATION:\nx"), user("x" + PROMPT), assistant(BASH), assistant()]
    ),
    max_size=8,
)


@given(TALK, TALK)
def test_a_prefix_is_read_alike_in_a_longer_conversation_but_for_a_last_command(before, after):
    short, long = voices_of(*before), voices_of(*before, *after)
    end = len(before) - 1 if before and before[-1]["role"] == "assistant" else len(before)

    assert long[:end] == short[:end]


@given(TALK)
def test_framed_conversations_have_units(chat):
    units = split_units(voices_of(*chat))

    assert [index for unit in units for index in range(unit.start, unit.end)] == list(
        range(len(chat))
    )


@given(st.text(alphabet="[]<>=`ab' \n:", max_size=60), st.sampled_from(["OBSERVATION:", "["]))
def test_any_words_are_read(call_text, prefix):
    call, answer = messages([assistant(call_text), user(prefix + call_text)])
    both = pair_call_with_result(call, answer)

    assert both is None or (looks_like_result(answer.text) and both[0].calls)


@pytest.mark.skipif(not RECORDED.exists(), reason="the recorded runs are not here")
def test_in_recorded_runs_every_observation_is_a_result():
    voices = []
    for file in sorted(RECORDED.rglob("*.traj")):
        history = json.loads(file.read_bytes())["history"]
        if not any(one.get("tool_calls") for one in history):
            parsed = voices_of(
                *({"role": one["role"], "content": one["content"]} for one in history)
            )
            answers = (now for one, now in pairwise(parsed) if one.voice is Voice.ASSISTANT)
            voices += [one.voice for one in answers]

    assert len(voices) > 100
    assert set(voices) == {Voice.RESULT}


def result_voice(command: str, result: str) -> Voice:
    return assign_voices(messages([user("Go"), assistant(command), user(result)]))[-1].voice


def test_a_shells_prompt_is_told_by_the_last_2000_characters():
    directory, prompt = "(Current directory: ", "bash-$"

    for chars, voice in ((1_974, Voice.RESULT), (1_975, Voice.USER)):
        output = f"so\n{directory}{'y' * chars}{prompt}"
        assert result_voice("```\nls\n```", output) is voice


def test_a_tools_name_before_its_result_has_at_most_64_characters():
    for chars, voice in ((64, Voice.RESULT), (65, Voice.USER)):
        name = "n" * chars
        assert result_voice(f"<{name}>x</{name}>", f"[{name} for 'x'] Result:\nok") is voice
