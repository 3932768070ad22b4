"""A prompt as its tokens."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.tools.simulator.rendering import (
    PromptRenderer,
    RenderedPart,
    Vocabulary,
    call_text,
    opaque,
    opening,
)


def test_a_chat_counts_as_openai_documents_it(vocabulary: Vocabulary) -> None:
    rendering = PromptRenderer(vocabulary)
    rendering.message("system", [rendering.text("Be brief.")])
    rendering.message("user", [rendering.text("Why is the sky blue?")])

    documented = 3 + sum(
        3 + len(vocabulary.ids(role)) + len(vocabulary.ids(text))
        for role, text in (("system", "Be brief."), ("user", "Why is the sky blue?"))
    )

    assert rendering.to_prompt(scope="").tokens == documented


def test_an_answer_and_its_priming_open_the_next_prompt(vocabulary: Vocabulary) -> None:
    first = PromptRenderer(vocabulary)
    first.message("user", [first.text("Hello")])
    prompt = first.to_prompt(scope="")
    second = PromptRenderer(vocabulary)
    second.message("user", [second.text("Hello")])
    second.message("assistant", [second.text("Good day.")])

    tokens = [token for block in prompt.blocks for token in block.tokens]
    following = [token for block in second.to_prompt(scope="").blocks for token in block.tokens]

    assert following[: len(tokens) + 3] == [*tokens, *vocabulary.ids("Good day.")]


def test_blocks_of_one_message_share_its_number_and_keep_their_marks(
    vocabulary: Vocabulary,
) -> None:
    rendering = PromptRenderer(vocabulary)
    rendering.message("user", [rendering.text("a", "1h"), rendering.tool_call("f", "{}")])
    rendering.message("user", [])
    blocks = rendering.to_prompt(scope="s", key="k", explicit=True, ttl="30m").blocks

    assert [(block.message, block.kind, block.mark) for block in blocks] == [
        (0, "text", "1h"),
        (0, "tool_use", None),
        (1, "text", None),
        (2, "text", None),
    ]
    assert vocabulary.ids(call_text("f", "{}"))[0] in blocks[1].tokens


def test_blocks_without_text_are_told_apart_by_their_content() -> None:
    one, same, other = (opaque("image", source, 5) for source in ("a", "a", "b"))

    assert one == same
    assert one.tokens != other.tokens
    assert len(one.tokens) == 5
    assert max(other.tokens) < 2**32


def test_parameters_change_the_opening_of_a_message_and_nothing_else(
    vocabulary: Vocabulary,
) -> None:
    usual, changed = PromptRenderer(vocabulary), PromptRenderer(vocabulary)
    usual.message("user", [RenderedPart("text", (1, 2))], opening(""))
    changed.message("user", [RenderedPart("text", (1, 2))], opening("tool_choice"))

    (one, _), (two, _) = usual.to_prompt(scope="").blocks, changed.to_prompt(scope="").blocks

    assert one.tokens[0] != two.tokens[0]
    assert one.tokens[1:] == two.tokens[1:]


def test_the_vocabulary_forgets_what_it_read_longest_ago() -> None:
    small = Vocabulary(bound=6)
    first = small.ids("one two three")
    small.ids("four five six")
    small.ids("one two three")
    small.ids("seven eight nine")

    assert list(small._known) == ["one two three", "seven eight nine"]
    assert small.ids("one two three") is not None
    assert small.ids("one two three") == first


@given(text=st.text(max_size=60), limit=st.integers(0, 20))
def test_a_text_is_cut_within_its_bound(vocabulary: Vocabulary, text: str, limit: int) -> None:
    cut = vocabulary.truncate_text(text, limit)

    assert text.startswith(cut)
    assert len(vocabulary.ids(cut)) <= limit or not cut
    assert cut == text or len(vocabulary.ids(text)) > limit
