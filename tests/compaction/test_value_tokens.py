import pytest

from compaction.value_tokens import TokenIndex, find_name, named_values, normalize_text


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("held until 30 April", ["30 April"]),
        ("bis 30. April 2026, or April 30", ["30. April 2026", "April 30"]),
        ("3rd of June, May 5, 2024, March 2025", ["3rd of June", "May 5, 2024", "March 2025"]),
        ("$1,250.50, 20 USD, USD 20, 15 €", ["$1,250.50", "20 USD", "USD 20", "15 €"]),
        ("15 % of it at 14:30 or 2 pm", ["15 %", "14:30", "2 pm"]),
        ("订单AB-12将于2026年4月30日发货", ["AB-12", "2026年4月30日"]),
        ("共3000元, 下午3点", ["3000元", "下午3点"]),
        ("\uff12\uff10\uff12\uff16\u5e74\uff14\u6708", ["2026年4月"]),
        ("رقم ٣٠٠٠", ["3000"]),
        ("see /srv/a/b.py, a@b.co and https://x.y/z", ["srv/a/b.py", "a@b.co", "https://x.y/z"]),
        ("snake_case, CamelCase, JFK, a_b.py", ["snake_case", "CamelCase", "JFK", "a_b.py"]),
        ("2026-05-01T10:00:00Z, 2026-05-01", ["2026-05-01T10:00:00Z", "2026-05-01"]),
        ("ouvre à 9 h 45, ferme à 19h", ["9 h 45", "19h"]),
        ("om 9.45 uur; 9 giờ 45", ["9.45 uur", "9 giờ 45"]),
        ("18,40 zł, 184 рубля, 84 гривні, 960 lira", ["18,40 zł", "184 рубля", "84 гривні", "960 lira"]),
        ("84.000 đồng, 84 บาท, ８４ रुपये", ["84.000 đồng", "84 บาท", "84 रुपये"]),
        ("٨٫٤٠ دينار عند ٩:٤٥", ["8.40 دينار", "9:45"]),
        ("오전 9시 45분, 96,000원", ["오전 9시 45분", "96,000원"]),
        ("3 maja, 30 nisan, 5 травня, 7 मार्च", ["3 maja", "30 nisan", "5 травня", "7 मार्च"]),
        ("Hello World, and/or e.g. this. You may go.", []),
        ("", []),
    ],
)  # fmt: skip
def test_a_text_names_values(text, values):
    assert list(named_values(text).values()) == values


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("3000", "unit 30005"), ("3000", "3000.50"), ("30", "2026-04-30"), ("3", "3,000"),
        ("30 April", "30 and April"), ("30 April", "April 30"), ("W-1", "W-12"), ("4月", "4日"),
    ],
)  # fmt: skip
def test_a_part_of_a_token_is_not_the_value(value, text):
    (tokens,) = named_values(value)

    assert tokens not in TokenIndex([text])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("3000", "{unit:3000 open:true}"), ("30 April", "30. April 2026"),
        ("W-1", "rows:[[x W-1; y]]"),
        ("3000", "共3000元"), ("3000", "\uff13\uff10\uff10\uff10"), ("é_1", "e\u0301_1"),
        ("a_b", r'{\"k\":\"a_b\"}'), ("10:30", "at:10:30"),
    ],
)  # fmt: skip
def test_a_whole_token_is_the_value_however_it_is_written(value, text):
    (tokens,) = named_values(value)

    assert tokens in TokenIndex(["nothing", text])


def test_no_value_reaches_from_one_text_into_the_next():
    (tokens,) = named_values("30 April")

    assert tokens not in TokenIndex(["30", "April"])
    assert "30 April" in TokenIndex(["30 April"])
    assert "" not in TokenIndex([""])


def test_escapes_of_json_are_undone():
    assert normalize_text(r"a\u00e9\nb\\n \"c\" d\\e").split() == ["aé", "b", "c", "d/e"]


@pytest.mark.parametrize(
    ("text", "name", "position"),
    [
        ("unit 30005, unit 3000", "3000", 17),
        ("unit 30005", "3000", -1),
        ("3000.50 and 10:3000", "3000", -1),
        ("see src/parser.py", "parser.py", 8),
        ("ORD-77-B", "ORD-77", -1),
        ("ORD-77, please", "ORD-77", 0),
        ("订单AB-12已发货", "AB-12", 2),
        ("AB-123", "AB-12", -1),
        ("read_3_37(x)", "read_3_37", 0),
        ("", "x", -1),
    ],
)
def test_a_name_is_found_as_a_whole(text, name, position):
    assert find_name(text, name) == position


@pytest.mark.parametrize(("written", "sent"), [("04:00", "at 4:00."), ("4:00", "dep:04:00:00")])
def test_a_time_is_the_same_with_a_leading_zero_and_seconds(written, sent):
    assert written in TokenIndex([sent])
    assert written not in TokenIndex(["at 14:00", "at 4:00:30"])


def test_a_path_stands_where_a_longer_one_ends_with_it():
    assert "src/fields.py" in TokenIndex(["/repo/src/fields.py edited"])
    assert "ields.py" not in TokenIndex(["/repo/src/fields.py edited"])
    assert "5" not in TokenIndex(["3/5"])


def test_a_value_has_at_most_4096_characters():
    assert list(named_values("a1" * 2_048).values()) == ["a1" * 2_048]
    assert list(named_values("a1" * 2_048 + "a").values()) == []


def test_arabic_separators_are_those_of_other_scripts():
    assert normalize_text("٣٬٠٠٠") == "3,000"
    assert normalize_text("٨٫٤٠") == "8.40"
