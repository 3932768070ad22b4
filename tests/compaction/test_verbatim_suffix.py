import orjson

from compaction.conversation_view import ConversationView, view_conversation
from compaction.reading.parsed_messages import ParsedMessageCache
from compaction.reading.token_estimate import estimate_tokens
from compaction.verbatim_suffix import (
    SuffixContext,
    VerbatimSuffix,
    cut_shown_results,
    extend_suffix,
)
from tests.fakes.chat_messages import assistant, tool_call_and_result, user

_PAGE = "\n".join(f"{n} one line of many" for n in range(40))


def heard(raws: list[bytes]) -> ConversationView:
    return view_conversation(ParsedMessageCache().messages(raws, estimate_tokens))


def test_messages_go_as_they_came_where_nothing_can_be_told_shorter():
    view = heard([user("a"), assistant("b"), user("c")])

    tail = extend_suffix(view, VerbatimSuffix(start=0, end=0), 3, estimate_tokens)

    assert tail.sent_messages(view) == [message.raw for message in view.messages]
    assert tail.tokens == view.cumulative_tokens[3]
    assert tail.tokens_from(view, 1) == view.tokens_between(1, 3)


def test_a_tail_that_grows_in_steps_is_what_it_is_at_once():
    view = heard(
        [
            user("a"),
            *tool_call_and_result("f", {}, _PAGE),
            *tool_call_and_result("f", {}, _PAGE),
            user("c"),
        ]
    )

    steps = VerbatimSuffix(start=0, end=0)
    for end in (1, 3, 5, 6):
        steps = extend_suffix(view, steps, end, estimate_tokens)

    assert steps == extend_suffix(view, VerbatimSuffix(start=0, end=0), 6, estimate_tokens)


def test_a_shortened_result_counts_fewer_tokens():
    view = heard(
        [user("a"), *tool_call_and_result("f", {}, _PAGE), *tool_call_and_result("f", {}, _PAGE)]
    )

    tail = extend_suffix(view, VerbatimSuffix(start=0, end=0), 5, estimate_tokens)

    assert list(tail.replaced) == [4]
    assert "same as" in orjson.loads(tail.replaced[4].raw)["content"]
    assert tail.tokens < view.cumulative_tokens[5]
    assert tail.tokens_from(view, 4) == tail.replaced[4].tokens
    assert tail.tokens == view.tokens_between(0, 4) + tail.replaced[4].tokens


def test_a_file_that_was_read_stays_to_the_letter_for_edits_to_match():
    theme = "{\n" + "\n".join(f'\t"accent{n}": "cyan",' for n in range(40)) + '\n\t"last": ""\n}'
    view = heard(
        [
            user("a"),
            *tool_call_and_result("read", {"path": "dark.json"}, theme),
            *tool_call_and_result("bash", {"command": "cat dark.json"}, f"{theme}\n"),
            *tool_call_and_result("get_theme", {"name": "dark"}, theme),
        ]
    )

    tail = extend_suffix(view, VerbatimSuffix(start=0, end=0), 7, estimate_tokens)

    assert list(tail.replaced) == [6]


def test_before_the_first_compaction_nothing_is_recalled():
    view = heard([user("Look at ORD-7788."), assistant("It is blue."), user("ORD-7788 again?")])
    compacted = VerbatimSuffix(start=2, end=2)

    assert not extend_suffix(view, VerbatimSuffix(start=0, end=0), 3, estimate_tokens).replaced
    assert list(extend_suffix(view, compacted, 3, estimate_tokens).replaced) == [2]
    assert not extend_suffix(
        view, compacted, 3, estimate_tokens, SuffixContext(text=lambda: "a record of ORD-7788")
    ).replaced


def test_a_recalled_value_is_not_recalled_twice():
    order = {"id": "ORD-7788", "owner": "li_wei_4411"}
    raws = [user("Hi"), *tool_call_and_result("get", {}, order), user("ORD-7788?"),
            assistant("So."), user("And li_wei_4411?")]  # fmt: skip
    view = heard(raws)

    tail = extend_suffix(view, VerbatimSuffix(start=3, end=3), 6, estimate_tokens)

    assert list(tail.replaced) == [3]
    assert b"li_wei_4411" in tail.replaced[3].raw


def test_only_so_many_names_are_looked_up_between_two_compactions():
    raws = [
        user("Hi"),
        *tool_call_and_result("get", {}, {f"k{n}": f"ORD-{n}77" for n in range(600)}),
    ]
    for n in range(20):
        raws += [user(" ".join(f"XYZ-{n}{m}88" for m in range(40))), assistant("So.")]
    view = heard([*raws, user("ORD-577?")])

    tail = extend_suffix(view, VerbatimSuffix(start=3, end=3), len(raws) + 1, estimate_tokens)

    assert tail.looked_up == 256
    assert not tail.replaced


def test_results_are_left_alone_while_no_cache_would_keep_what_is_sent():
    view = heard(
        [
            user("a"),
            *tool_call_and_result("f", {}, _PAGE),
            *tool_call_and_result("f", {}, _PAGE),
            user("c"),
        ]
    )
    whole = view.cumulative_tokens[6]

    assert not extend_suffix(
        view, VerbatimSuffix(start=0, end=0), 6, estimate_tokens, SuffixContext(above=whole)
    ).replaced
    assert extend_suffix(
        view, VerbatimSuffix(start=0, end=0), 6, estimate_tokens, SuffixContext(above=whole // 3)
    ).replaced


def test_a_name_comes_back_though_a_longer_one_stands_in_what_is_sent():
    raws = [user("Look."), *tool_call_and_result("get", {}, "unit 3000 is red"), user("unit 3000?")]
    view = heard(raws)
    before = SuffixContext(text=lambda: "a record of unit 30005")

    (replacement,) = extend_suffix(
        view, VerbatimSuffix(start=3, end=3), 4, estimate_tokens, before
    ).replaced.values()

    assert "unit 3000 is red" in orjson.loads(replacement.raw)["content"]


def test_a_result_that_would_weigh_more_told_shorter_stays_whole():
    rows = orjson.dumps([{"name": f"file {n}", "size": n} for n in range(40)]).decode()
    view = view_conversation(
        ParsedMessageCache().messages([user("a"), *tool_call_and_result("ls", {}, rows)], _heavy)
    )

    tail = extend_suffix(view, VerbatimSuffix(start=0, end=0), 3, _heavy)

    assert not tail.replaced
    assert tail.tokens == view.cumulative_tokens[3]
    assert extend_suffix(view, VerbatimSuffix(start=0, end=0), 3, len).replaced


def _heavy(text: str) -> int:
    """A count to which columns are heavy."""
    return len(text) * (9 if "columns" in text else 1)


def test_results_stay_whole_until_what_they_would_save_is_enough_and_then_stay_short():
    view = heard(
        [
            user("a"),
            *(raw for n in range(4) for raw in tool_call_and_result("f", {}, _PAGE, f"c{n}")),
        ]
    )
    saves = (
        view.messages[4].tokens
        - extend_suffix(view, VerbatimSuffix(start=0, end=0), 9, estimate_tokens).replaced[4].tokens
    )

    replaced = {
        least: list(
            extend_suffix(
                view, VerbatimSuffix(start=0, end=0), 9, estimate_tokens, SuffixContext(least=least)
            ).replaced
        )
        for least in (0, saves + 1, 2 * saves + 1, 9 * saves)
    }

    assert list(replaced.values()) == [[4, 6, 8], [6, 8], [8], []]


def test_of_one_message_32_names_are_looked_up():
    record = tool_call_and_result("get", {}, {"order": "ORD-577"})

    def replaced_messages(names_before: int) -> list[int]:
        names = [*(f"XYZ-{n}88" for n in range(names_before)), "ORD-577"]
        view = heard([user("Hi"), *record, user(" ".join(names))])
        tail = extend_suffix(view, VerbatimSuffix(start=3, end=3), 4, estimate_tokens)
        assert tail.looked_up == min(len(names), 32)
        return list(tail.replaced)

    assert replaced_messages(31) == [3]
    assert replaced_messages(32) == []


def test_suffix_stays_the_same_where_no_more_results_can_be_cut():
    log = "\n".join(f"compiled unit {n} in {n * 7} ms" for n in range(150))
    view = heard([user("Build it."), *tool_call_and_result("bash", {"command": "make all"}, log)])
    whole = extend_suffix(view, VerbatimSuffix(start=0, end=0), 3, estimate_tokens)

    cut = cut_shown_results(view, whole, 0, estimate_tokens)

    assert list(cut.cut) == list(cut.replaced) == [2]
    assert cut.tokens == whole.tokens + cut.cut[2].tokens - view.messages[2].tokens
    assert cut_shown_results(view, cut, 0, estimate_tokens) is cut
