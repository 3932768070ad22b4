"""Charts in a real browser: their marks, legend, tooltip, colours, zoom and weight."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, Request, expect

pytestmark = pytest.mark.browser

#: Bytes that the first page may need, with all it loads.
_MAX_FIRST_PAGE_BYTES = 300_000
_MODULES = "/admin/static/"


def open_chart(window: BrowserContext, path: str) -> tuple[Page, Locator]:
    """A page and its first figure, once that is drawn."""
    page = window.new_page()
    page.goto(f"/admin{path}")
    figure = page.locator("figure[data-drawn]").first
    figure.locator("svg.plot").wait_for()
    return page, figure


def legend_colors(figure: Locator) -> dict[str, str]:
    """The colour of each name of a chart's legend."""
    colors: dict[str, str] = figure.evaluate(
        "figure => Object.fromEntries([...figure.querySelectorAll('.legend button')].map("
        "button => [button.title, getComputedStyle(button.querySelector('i')).backgroundColor]))"
    )
    return colors


def call_module(page: Page, module: str, expression: str) -> Any:
    """The value of an expression of JavaScript over the exports of one of our modules."""
    return page.evaluate(f"import('{_MODULES}{module}').then(exports => {expression})")


def test_bars_of_a_stack_are_as_high_as_the_amounts_of_its_table(admin: BrowserContext) -> None:
    page, figure = open_chart(admin, "/costs?by=feature")

    heights = figure.evaluate(
        "figure => [...figure.querySelectorAll('svg .series')].map(group => "
        "[...group.children].reduce((sum, bar) => sum + bar.height.baseVal.value, 0))"
    )
    columns = figure.evaluate(
        "figure => [...figure.querySelector('thead tr').cells].slice(1).map((_, index) => "
        "[...figure.querySelectorAll('tbody tr')].reduce((sum, row) => "
        "sum + Number(row.cells[index + 1].dataset.value), 0))"
    )
    shares = [column / sum(columns) for column in columns]
    assert [height / sum(heights) for height in heights] == pytest.approx(shares, abs=0.002)
    assert sum(heights) > 50
    page.close()


def test_arrow_keys_read_a_chart_bucket_by_bucket(admin: BrowserContext) -> None:
    page, figure = open_chart(admin, "/costs?by=feature")
    tip = figure.locator(".tip")
    figure.locator("svg.plot").focus()
    page.keyboard.press("End")

    row = figure.locator("tbody tr").last
    expect(tip).to_contain_text(str(row.locator("th").text_content()))
    amounts = [
        float(text.removeprefix("$")) for text in tip.locator("li b").all_text_contents()[:-1]
    ]
    assert amounts == sorted(amounts, reverse=True)
    assert amounts
    assert "Total" in str(tip.text_content())

    page.keyboard.press("ArrowLeft")
    expect(tip).to_contain_text(str(figure.locator("tbody tr th").nth(-2).text_content()))
    page.keyboard.press("Escape")
    expect(tip).to_be_hidden()
    page.close()


def test_a_legend_entry_shows_its_series_alone_and_then_all_again(admin: BrowserContext) -> None:
    page, figure = open_chart(admin, "/costs?by=feature")
    button = figure.locator(".legend button").first
    count = figure.locator("svg .series").count()
    assert count > 1

    button.focus()
    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "true")
    assert figure.locator("svg .series").count() == 1

    page.keyboard.press("Enter")
    expect(button).to_have_attribute("aria-pressed", "false")
    assert figure.locator("svg .series").count() == count
    page.close()


def test_a_name_has_the_same_colour_on_all_pages(admin: BrowserContext) -> None:
    colors = [legend_colors(open_chart(admin, path)[1]) for path in ("/costs?by=feature", "/cache")]
    shared = [name for name in colors[0] if name in colors[1]]

    assert len(shared) > 1
    assert [colors[0][name] for name in shared] == [colors[1][name] for name in shared]
    assert len({colors[0][name] for name in shared}) == len(shared)


def test_colours_follow_names_and_not_their_order(admin: BrowserContext) -> None:
    page, _ = open_chart(admin, "/costs")
    names = ["search", "support", "billing", "growth", "mobile", "risk", "(none)", "(others)"]
    slots = call_module(page, "chart_data.js", f"exports.colorSlots({names})")
    turned = call_module(page, "chart_data.js", f"exports.colorSlots({names[::-1]})")

    assert turned[::-1] == slots
    assert slots[-2:] == [0, 0]
    assert len(set(slots[:-2])) == 6
    many = [f"team {number}" for number in range(40)]
    assert set(call_module(page, "chart_data.js", f"exports.colorSlots({many})")) == {*range(1, 13)}
    page.close()


def test_ticks_stand_at_round_values_and_say_them_shortly(admin: BrowserContext) -> None:
    page, _ = open_chart(admin, "/costs")

    def texts(low: float, high: float, unit: str) -> list[str]:
        ticks = f"exports.niceTicks({low}, {high})"
        made: list[str] = call_module(
            page,
            "chart_scales.js",
            f"{ticks}.map((tick, _, all) => exports.formatTick(tick, '{unit}', all[1] - all[0]))",
        )
        return made

    assert texts(0, 0.0021, "usd") == [
        "$0.0000",
        "$0.0005",
        "$0.0010",
        "$0.0015",
        "$0.0020",
        "$0.0025",
    ]
    assert texts(-3, 9.7, "usd") == ["−$5", "$0", "$5", "$10"]  # noqa: RUF001
    assert texts(0, 83_000, "usd") == ["$0", "$20k", "$40k", "$60k", "$80k", "$100k"]
    assert texts(0, 0.97, "share") == ["0 %", "20 %", "40 %", "60 %", "80 %", "100 %"]
    assert texts(0, 1.9, "s") == ["0", "500 ms", "1 s", "1.5 s", "2 s"]
    assert texts(0, 3.1e9, "count") == ["0", "1 B", "2 B", "3 B", "4 B"]
    assert texts(0, 0, "usd") == ["$0"]
    page.close()


@pytest.mark.parametrize(
    ("count", "minutes", "labels"),
    [
        (48, 60, ["00:00 29 Nov", "03:00", "06:00", "09:00"]),
        (120, 1, ["00:00 29 Nov", "00:10", "00:20", "00:30"]),
        (90, 1440, ["30 Nov 2026", "7 Dec", "14 Dec", "21 Dec"]),
        (1, 1440, ["29 Nov 2026"]),
    ],
)
def test_ticks_of_time_are_as_fine_as_there_is_room(
    admin: BrowserContext, count: int, minutes: int, labels: list[str]
) -> None:
    page, _ = open_chart(admin, "/costs")
    starts = (
        f"Array.from({{length: {count}}}, (_, n) => Date.UTC(2026, 10, 29) + n * {minutes} * 6e4)"
    )
    shown = call_module(
        page,
        "chart_scales.js",
        f"exports.timeTicks({starts}, 1100).map(({{text, below}}) => (text + ' ' + below).trim())",
    )
    assert shown[: len(labels)] == labels
    assert len(shown) <= 17
    page.close()


def drag(page: Page, figure: Locator) -> None:
    """Moves the pressed pointer over the middle third of a plot, and holds it there."""
    figure.scroll_into_view_if_needed()
    box = figure.locator("svg.plot").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 3, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 2 / 3, box["y"] + 60, steps=5)


def test_dragging_over_a_chart_loads_the_days_that_it_covers(admin: BrowserContext) -> None:
    page, figure = open_chart(admin, "/costs?by=feature&unit=day")
    heads = figure.locator("tbody tr th").all()
    days = [str(head.get_attribute("data-value"))[:10] for head in heads]
    drag(page, figure)
    page.mouse.up()
    page.wait_for_url("**from=*")

    query = parse_qs(urlsplit(page.url).query)
    first, last = days.index(query["from"][0]), days.index(query["to"][0])
    assert [first, last] == pytest.approx([9.5, 19.5], abs=1)
    assert query["by"] == ["feature"]
    assert "unit" not in query
    page.close()


def test_a_click_or_enter_on_a_bucket_opens_its_day_and_then_calls_of_its_hour(
    admin: BrowserContext,
) -> None:
    page, figure = open_chart(admin, "/costs?by=feature&unit=day")
    today = str(figure.locator("tr:has(> [data-partial]) th").get_attribute("data-value"))[:10]
    bars = figure.locator("svg.plot").bounding_box()
    assert bars is not None
    page.mouse.click(bars["x"] + bars["width"] / 2, bars["y"] + 60)
    page.wait_for_url("**from=*")
    middle = parse_qs(urlsplit(page.url).query)
    assert middle["from"] == middle["to"] < [today]
    page.close()

    page, figure = open_chart(admin, f"/costs?by=feature&from={today}&to={today}")
    figure.locator("svg.plot").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Home")
    expect(figure.locator(".tip")).to_contain_text("Open the calls of this hour")
    page.keyboard.press("Enter")
    page.wait_for_url("**/calls?*")
    query = parse_qs(urlsplit(page.url).query)
    assert (query["since"], query["until"]) == ([f"{today}T00:00:00Z"], [f"{today}T01:00:00Z"])
    page.close()


def test_escape_ends_a_drag_without_another_period(admin: BrowserContext) -> None:
    page, figure = open_chart(admin, "/costs?by=feature")
    before = page.url
    drag(page, figure)
    assert figure.locator("svg .selection").count() == 1
    page.keyboard.press("Escape")
    page.mouse.up()
    page.wait_for_timeout(100)

    assert page.url == before
    assert figure.locator("svg .selection").count() == 0
    page.close()


def test_a_chart_says_in_words_what_it_shows(admin: BrowserContext) -> None:
    page, figure = open_chart(admin, "/costs?by=feature")
    label = str(figure.locator("svg.plot").get_attribute("aria-label"))

    assert re.search(r"^Stacked bars: Cost by feature.* First .* \$.*, last .*, highest ", label)
    page.close()


def test_the_first_page_weighs_little_over_the_wire(admin: BrowserContext) -> None:
    page = admin.new_page()
    loaded: list[Request] = []
    page.on("requestfinished", lambda request: loaded.append(request))  # noqa: PLW0108 - its own attributes
    page.goto("/admin")
    page.wait_for_load_state("networkidle")

    sizes = [request.sizes() for request in loaded]
    weight = sum(size["responseBodySize"] + size["responseHeadersSize"] for size in sizes)
    assert len(loaded) > 5
    assert weight <= _MAX_FIRST_PAGE_BYTES, weight
    page.close()
