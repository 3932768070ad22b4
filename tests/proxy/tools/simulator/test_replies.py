"""Tests of what a simulated model answers."""

from dataclasses import replace

import orjson
import pytest

from proxy.caches.port import CachedPrompt, TokenBlock
from proxy.tools.simulator.fault_directives import parse_directives
from proxy.tools.simulator.rendering import Vocabulary
from proxy.tools.simulator.replies import ModelReply, ReplyRequest, ReplyTool, reply, signature

PROMPT = CachedPrompt(blocks=(TokenBlock(role="user", tokens=(1, 2, 3), message=0),))
LOOK = ReplyTool(name="look", schema={"type": "object", "properties": {"at": {"type": "string"}}})
WAIT = ReplyTool(name="wait", schema={})
ASKED = ReplyRequest(model="m", prompt=PROMPT, closing="", max_tokens=4000, tools=(LOOK, WAIT))


class ReplyModel:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    def __call__(self, request: ReplyRequest, cues: str = "", index: int = 0) -> ModelReply:
        return reply(request, parse_directives(cues), self.vocabulary, 60, index=index)


@pytest.fixture
def model(vocabulary: Vocabulary) -> ReplyModel:
    return ReplyModel(vocabulary)


def test_the_same_prompt_gets_the_same_marked_answer(model: ReplyModel) -> None:
    answer = model(ASKED)

    assert answer == model(ASKED)
    assert answer.text.startswith("[simulated]")
    assert answer.tokens == model.vocabulary.ids(answer.text)
    assert (answer.finish, answer.calls, answer.reasoning) == ("stop", (), 0)


def test_the_answers_of_one_call_differ(model: ReplyModel) -> None:
    assert model(ASKED, index=1).text != model(ASKED).text


def test_simulated_answers_differ_by_their_prompt(model: ReplyModel) -> None:
    assert model(replace(ASKED, closing="Why?")).text != model(ASKED).text


@pytest.mark.parametrize("limit", [1, 2, 7, 30])
def test_an_answer_fills_its_bound_and_no_more(model: ReplyModel, limit: int) -> None:
    answer = model(replace(ASKED, max_tokens=limit))

    assert answer.finish == "length"
    assert len(answer.tokens) == limit


def test_an_answer_is_as_long_as_a_cue_says(model: ReplyModel) -> None:
    assert 500 <= len(model(ASKED, "words=500").text.split()) < 540


def test_generation_ends_where_it_is_told_to_stop(model: ReplyModel) -> None:
    answer = model(replace(ASKED, stops=("never", ".", "")))

    assert answer.finish == "sequence"
    assert answer.stop == "."
    assert "." not in answer.text
    assert answer.text


@pytest.mark.parametrize("cues", ["call", "call=look"])
def test_a_tool_is_called_when_a_cue_says_so(model: ReplyModel, cues: str) -> None:
    answer = model(ASKED, cues)

    (call,) = answer.calls
    assert call.name == "look"
    assert orjson.loads(call.arguments)["at"].startswith("[simulated]")
    assert (answer.finish, answer.text) == ("tools", "")
    assert answer.tokens


def test_several_tools_are_called_at_once(model: ReplyModel) -> None:
    answer = model(ASKED, "call=wait,call=look")

    assert [call.name for call in answer.calls] == ["wait", "look"]
    assert answer.calls[0].arguments == "{}"
    assert answer.calls[0].id != answer.calls[1].id


def test_a_cue_may_hold_the_arguments_of_a_call(model: ReplyModel) -> None:
    answer = model(ASKED, "call=look,args=eyJhdCI6ICJPc2xvIn0,call=look")

    assert answer.calls[0].arguments == '{"at":"Oslo"}'
    assert orjson.loads(answer.calls[1].arguments)["at"].startswith("[simulated]")


def test_without_tools_none_is_called(model: ReplyModel) -> None:
    assert model(replace(ASKED, tools=()), "call").calls == ()


def test_a_forced_tool_is_called_uncued(model: ReplyModel) -> None:
    assert model(replace(ASKED, forced=["wait"])).calls[0].name == "wait"


def test_a_call_that_does_not_fit_is_left_out(model: ReplyModel) -> None:
    answer = model(replace(ASKED, forced=["look"], max_tokens=2))

    assert (answer.calls, answer.text, answer.tokens, answer.finish) == ((), "", (), "length")


def test_a_model_that_refuses_calls_nothing(model: ReplyModel) -> None:
    answer = model(replace(ASKED, forced=["look"]), "refuse")

    assert (answer.calls, answer.finish) == ((), "refusal")


def test_an_answer_satisfies_its_schema(model: ReplyModel) -> None:
    answer = model(replace(ASKED, schema={"type": "object", "properties": {"n": {"const": 3}}}))

    assert orjson.loads(answer.text) == {"n": 3}


def test_reasoning_is_paid_for_within_the_bound(model: ReplyModel) -> None:
    hidden = model(replace(ASKED, reasoning=64, max_tokens=70))

    assert (hidden.reasoning, hidden.thinking) == (64, "")
    assert len(hidden.tokens) == 6
    assert model(replace(ASKED, reasoning=64, max_tokens=10)).tokens == ()


def test_shown_reasoning_has_a_text_of_that_many_tokens(model: ReplyModel) -> None:
    shown = model(replace(ASKED, reasoning=64, shows_reasoning=True))

    assert len(model.vocabulary.ids(shown.thinking)) == shown.reasoning == 64


def test_a_signature_holds_for_one_text_only() -> None:
    assert signature("a") == signature("a")
    assert signature("a") != signature("a ")


def test_an_answer_in_letters_has_the_same_text_in_other_pieces(model: ReplyModel) -> None:
    plain, in_letters = model(ASKED), model(ASKED, "letters=3")

    assert in_letters.text == plain.text
    assert "".join(piece for piece, _ in in_letters.text_pieces()) == plain.text
    assert len([*in_letters.text_pieces()]) > len([*plain.text_pieces()])
