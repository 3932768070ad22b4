from dashboards.fast_path_savings import fast_path_savings, fast_path_sentence


def test_parts_without_savings_are_left_out() -> None:
    parts = fast_path_savings({"checks": -2, "small": 0, "cache": 3})

    assert [(saving.part, saving.nanos) for saving in parts] == [("cache", 3), ("checks", -2)]


def test_a_sentence_says_each_part_with_its_sign() -> None:
    parts = fast_path_savings({"small": 5 * 10**8, "checks": -(10**8)})

    assert (
        fast_path_sentence(parts)
        == "Fast path: small models $0.5, checks of answers and prompts read ahead -$0.1"
    )
