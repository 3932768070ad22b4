"""The report: what was paid, what would have been, and what to do for it."""

from dashboards.views.replay import CostCurve, CostCurves, ReplayReport
from proxy.tools.replay.compaction import ReplayedCompaction
from proxy.tools.replay.fast_path.reuse_report import LEGEND, NO_EQUAL_CALLS, NO_GRADES
from proxy.tools.replay.fast_path.reused_answers import EqualCalls, ReusedAnswers
from proxy.tools.replay.log_replay import LogOutcome, ReplayedModel
from proxy.tools.replay.report import replay_report
from proxy.tools.replay.source import ReasonCount, RecordedSource
from proxy.tools.replay.unmoved_text import FeatureNote
from proxy.tools.replay.variant_totals import FeatureTotals, VariantTotals
from slo.usage import Usage

CENT = 10_000_000


def feature(
    name: str, *cents: int | None, calls: int = 300, unanswered: int = 0, least: int = 0
) -> FeatureTotals:
    ways = []
    for amount in cents:
        way = VariantTotals()
        for number in range(calls):
            way.add(Usage(input=50, cache_read=50), 0)
            if number == 0:
                way.charge(None if amount is None else amount * CENT)
        ways.append(way)
    last = VariantTotals(nanos=least * CENT)
    return FeatureTotals(feature=name, ways=ways, least=last, unanswered=unanswered)


def outcome(*features: FeatureTotals, **fields) -> LogOutcome:
    model = ReplayedModel(model="m", route="r", regime="openai-interval", calls=300, has_price=True)
    options = {
        "models": (model,),
        "unnamed": 0,
        "left_out": (),
        "unreadable_answers": (),
        "unmoved": (),
        "compaction": ReplayedCompaction(),
    }
    return LogOutcome(features=features, **{**options, **fields})


def report(*features: FeatureTotals, **fields) -> ReplayReport:
    return replay_report(outcome(*features, **fields), RecordedSource([]))


def test_the_first_line_is_the_result():
    assert report(feature("chat", 120, 102, 61, 57)).headline == (
        "300 calls cost $1.20; through the gateway $0.61 (−49 %),"  # noqa: RUF001
        " without layouts $1.02 (−15 %), compaction −3.3 % more."  # noqa: RUF001
    )


def test_prompts_without_answers_say_so_in_the_first_line():
    summary = report(feature("chat", 120, 102, 61, 57, unanswered=300))

    assert summary.headline.startswith("300 calls cost $1.20 without their answers;")
    assert "The log has no answers" in " ".join(summary.remarks)


def test_calls_without_a_price_tell_what_they_read():
    assert report(feature("chat", None, None, None, None)).headline == (
        "300 calls at no known price; read from a cache: as sent 50%, without layouts"
        " 50%, by default 50%, compacted 50%."
    )


def test_a_log_whose_models_are_unknown_is_not_told_how_logs_look():
    *_, remark = report(left_out=(ReasonCount("no such model", 7, "a:3"),)).remarks

    assert remark == "7 calls left out, first a:3: no such model."


def test_no_call_is_no_result():
    summary = report()

    assert (summary.headline, summary.ways, summary.calls) == ("No call could be replayed.", (), 0)


def test_steps_begin_with_the_gateway_and_go_on_by_what_they_save():
    summary = report(feature("small", 100, 90, 80, 60), feature("large", 500, 500, 200, 100))

    header = " Its calls send the header x-thriftgate-feature: {}."
    gateway, *steps = [action.what for action in summary.actions]
    assert gateway == (
        "Send your calls through the gateway, unchanged: saves $3.20, $3.10 of it by layouts, which"
        " it learns for each feature that your calls name in the header x-thriftgate-feature. It"
        " takes your OPENAI_API_KEY or ANTHROPIC_API_KEY, and prints a key for your application,"
        " of the team default."
    )
    assert steps == [
        "Let it send old turns as facts, feature large: saves $1.00 more." + header.format("large"),
        "Let it send old turns as facts, feature small: saves $0.20 more." + header.format("small"),
    ]
    assert summary.actions[1].commands == ("thriftgate compaction mode default large facts",)


def test_kept_answers_are_a_step_among_the_others_and_have_their_legend():
    hits = EqualCalls(90, 300 * CENT)
    faq = ReusedAnswers(feature="faq\x1b", calls=100, repeating=100, hits=hits, equal=hits)

    summary = report(feature("faq", 500, 500, 500, 450), reused=(faq,))

    assert [step.what.split(":")[0] for step in summary.actions] == [
        "Send your calls through the gateway, unchanged",
        "Give equal calls one answer, feature faq\\u001b",
        "Let it send old turns as facts, feature faq",
    ]
    assert LEGEND in summary.remarks
    assert summary.reused[0].feature == "faq"


def test_an_agent_is_pointed_at_the_gateway_by_its_own_lines():
    first, second = report(feature("claude-code", 100, 90, 90, 50)).actions

    assert first.commands == ("thriftgate serve", "thriftgate agents")
    assert second.what.endswith("feature claude-code: saves $0.40 more.")


def test_a_name_from_a_log_stays_one_word_of_its_command_and_moves_no_cursor():
    summary = report(feature("x\x1b[2J\n'; reboot #", 100, 90, 90, 50))

    assert summary.features[0].feature == "x [2J '; reboot #"
    assert summary.actions[1].commands == (
        """thriftgate compaction mode default 'x [2J '"'"'; reboot #' facts""",
    )


def test_the_last_row_is_the_least_that_these_prompts_can_cost():
    (row,) = report(feature("chat", 120, 102, 61, 57, least=20)).ways[4:]

    assert (row.name, row.nanos) == ("at least", 20 * CENT)


def test_each_way_has_its_curve():
    summary = report(feature("chat", 3, 2, 1, 1), curve_calls=(9,), curves=[(3,), (2,), (1,), (1,)])

    names = ("as sent", "without layouts", "by default", "compacted")
    ways = (CostCurve(name=name, nanos=(n,)) for name, n in zip(names, (3, 2, 1, 1), strict=True))
    assert summary.curves == CostCurves(calls=(9,), ways=tuple(ways))
    assert report(feature("chat", None, None, None, None)).curves is None


def test_the_gateway_is_named_also_where_only_compaction_saves():
    first, _ = report(feature("chat", 100, 100, 100, 50)).actions

    assert "through the gateway, unchanged: needed for what follows." in first.what
    assert first.commands[0] == "thriftgate serve"


def test_compaction_that_changes_nothing_says_so():
    assert report(feature("chat", 100, 90, 80, 80)).headline.endswith("compaction nothing more.")


def test_savings_below_one_percent_are_nothing_to_do():
    assert report(feature("chat", 10_000, 9_990, 9_985, 10_050)).actions == ()


def test_each_feature_has_its_changes():
    (row, _) = report(feature("a", 200, 150, 100, 100), feature("b", 100, 100, 100, 110)).features

    assert (row.feature, row.calls, row.nanos) == ("a", 300, 200 * CENT)
    assert row.changes == (-0.25, -0.5, -0.5)


def test_remarks_name_what_was_left_out_and_what_waits():
    remarks = report(
        feature("chat", 120, 102, 61, 57, unanswered=2),
        left_out=(ReasonCount("no such model", 7, "a:3"),),
        unreadable_answers=(ReasonCount("odd", 2, "a:9"),),
        unmoved=(FeatureNote(feature="chat", calls=300, why="too little to learn from"),),
        unnamed=4,
        compaction=ReplayedCompaction(calls=5, resets=1, uncompacted={"thinks": 295}),
    ).remarks

    assert remarks[0].startswith("Without layouts: through the gateway")
    assert remarks[1:] == (
        "Replayed as m (r, openai-interval): 300 calls.",
        "4 calls named no model: replayed as gpt-5.6-terra unless --model names another.",
        "No layout for feature chat (300 calls): too little to learn from.",
        "Compacted: 5 of 300 calls, with 1 reset; in 0 others only tool results were shortened.",
        (
            "Live, compaction may lose a feature one cent a day, or one conversation's first"
            " compaction (THRIFTGATE_LEARNING_STAKE sets the cent); once that is lost, its"
            " conversations are compacted later. Replay counts no such balance."
        ),
        "Not compacted, 295 calls: too few answers to see that no thinking is sent back (295).",
        "2 calls had no readable answer: taken to be as long as the feature's others.",
        "2 answers could not be read, first a:9: odd.",
        NO_EQUAL_CALLS,
        NO_GRADES,
        "7 calls left out, first a:3: no such model.",
    )


def test_a_log_that_counts_far_more_tokens_than_its_prompts_hold_lacks_parts():
    fewer, more = (
        " ".join(report(feature("chat", 120, 102, 61, 57), prompt_tokens=tokens).remarks)
        for tokens in (60_000, 60_001)
    )

    assert "stand in it" not in fewer
    assert "have 60,001 tokens, but only 30,000 stand in it" in more


def test_calls_without_a_time_are_named_with_the_gap_that_stands_for_it():
    source = RecordedSource([], gap=3)
    source.untimed = 7

    remarks = replay_report(outcome(feature("chat", 120, 102, 61, 57)), source).remarks

    assert any(
        remark.startswith("7 calls had no time that can be read: taken 3 s apart")
        for remark in remarks
    )


def test_a_feature_whose_marks_wait_says_for_what():
    waiting = FeatureNote(feature="chat", calls=120, why="marks wait: it lost $0.01 of $0.01")
    summary = report(feature("chat", 100, 100, 100, 100), waiting=(waiting,))

    assert (
        "Sent without all of its cache marks, feature chat (120 calls): marks wait: it lost $0.01"
        " of $0.01."
    ) in summary.remarks
