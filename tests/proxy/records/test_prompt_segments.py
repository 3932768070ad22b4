from proxy.records.prompt_segments import CacheMark, PromptSegments


def test_segments_are_said_with_the_marks_and_their_lifetimes() -> None:
    segments = PromptSegments(1_900, 0, 100, (CacheMark(1_900, "1h"), CacheMark(2_000, "")))

    assert list(segments.lines()) == [
        "Segments of its prompt, in tokens: stable 1,900, variable 100.",
        "Cache marks after tokens: 1,900 (1h), 2,000.",
    ]


def test_a_prompt_without_tokens_or_marks_says_so() -> None:
    assert list(PromptSegments(0, 0, 0).lines()) == ["Segments of its prompt, in tokens: none."]
