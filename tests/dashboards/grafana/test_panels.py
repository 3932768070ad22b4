"""Panels and boards as Grafana reads them."""

import re

from dashboards.grafana.boards import board_json
from dashboards.grafana.panels import (
    Board,
    Query,
    Variable,
    heatmap,
    increase,
    quantile,
    rate,
    series,
    stat,
)


def board_with(*panels):
    board = Board(name="a-b", description="All.", variables=(Variable("team", "m"),), panels=panels)
    return board_json(board)


def test_panels_go_from_left_to_right_and_rows_are_as_high_as_their_highest_panel():
    made = board_with(
        *(stat(f"s{n}", "One.", "s", "up") for n in range(5)), series("lines", "Two.", "s")
    )

    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in made["panels"]]
    assert places == [(0, 0), (6, 0), (12, 0), (18, 0), (0, 4), (6, 4)]


def test_a_row_begins_anew_below_the_highest_panel_of_the_one_before():
    made = board_with(*(series(f"l{n}", "One.", "s") for n in range(3)))

    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in made["panels"]]
    assert places == [(0, 0), (12, 0), (0, 8)]


def test_a_quantile_is_of_rates_of_buckets_summed_over_processes():
    assert quantile(0.95, "m_seconds", 'a="b"', "route") == (
        "histogram_quantile(0.95, "
        'sum by (le, route) (rate(m_seconds_bucket{a="b"}[$__rate_interval])))'
    )


def test_counters_are_summed_as_rates_or_as_increases_of_the_time_shown():
    assert rate("m_total", by="team") == "sum by (team) (rate(m_total[$__rate_interval]))"
    assert increase("m_total", 'a="b"') == 'sum(increase(m_total{a="b"}[$__range]))'


def test_a_heat_map_asks_for_buckets_in_their_own_format():
    (panel,) = board_with(heatmap("heat", "All.", "m_seconds"))["panels"]

    assert panel["targets"][0]["format"] == "heatmap"
    assert panel["targets"][0]["legendFormat"] == "{{le}}"
    assert "sum by (le) (increase(m_seconds_bucket" in panel["targets"][0]["expr"]


def test_a_number_is_asked_for_once_and_lines_over_time():
    one, lines = board_with(
        stat("s", "One.", "s", "up"), series("l", "Two.", "s", Query("up", "{{a}}"))
    )["panels"]

    assert one["targets"][0]["instant"] is True
    assert "instant" not in lines["targets"][0]


def test_a_stacked_panel_says_so():
    made = board_with(
        series("l", "Two.", "s", Query("up"), is_stacked=True), series("k", "Two.", "s")
    )

    stacked, plain = (panel["fieldConfig"]["defaults"] for panel in made["panels"])
    assert stacked["custom"]["stacking"]["mode"] == "normal"
    assert "custom" not in plain


def test_a_variable_offers_the_values_of_its_label_and_all():
    variables = board_with()["templating"]["list"]

    assert [variable["name"] for variable in variables] == ["source", "team"]
    assert variables[1]["query"]["query"] == "label_values(m, team)"
    assert variables[1]["allValue"] == ".*"


def test_a_board_has_an_address_that_stays():
    made = board_with()

    assert re.fullmatch(r"thriftgate-[a-z-]{1,29}", made["uid"])
    assert made["title"] == "Thriftgate: a b"
