"""Cumulative costs as places of a plot."""

from xml.etree import ElementTree as ET

import pytest

from dashboards.cost_plot import cost_plot
from dashboards.pages import cost_curves
from dashboards.views.replay import CostCurve, CostCurves

CENT = 10_000_000


def curves(*cents: tuple[int, ...], names: tuple[str, ...] = ("as sent", "cheap")) -> CostCurves:
    ways = [
        CostCurve(name=name, nanos=tuple(cent * CENT for cent in way))
        for name, way in zip(names, cents, strict=False)
    ]
    return CostCurves(calls=(10, 20), ways=tuple(ways))


def test_lines_begin_at_nothing_and_end_at_their_costs() -> None:
    plot = cost_plot(curves((40, 80), (10, 20)))

    dear, cheap = plot.lines
    assert dear.points == "70.0,272.0 407.5,154.0 745.0,36.0"
    assert cheap.points == "70.0,272.0 407.5,242.5 745.0,213.0"
    assert (dear.end_nanos, cheap.end_nanos) == (80 * CENT, 20 * CENT)


@pytest.mark.parametrize(
    ("most", "ticks"),
    [(80, [0, 20, 40, 60, 80]), (81, [0, 50, 100]), (3, [0, 1, 2, 3]), (0, [0, 1])],
)
def test_ticks_are_round_and_reach_the_dearest_way(most: int, ticks: list[int]) -> None:
    result = [tick.nanos for tick in cost_plot(curves((0, most))).ticks]

    assert result == [tick * CENT for tick in ticks] if most else result == [0, 1]


def test_a_file_is_whole_xml_and_names_are_text_in_it() -> None:
    svg = cost_curves(curves((4, 8), (1, 2), names=("as sent", "<script>alert(1)</script>")))

    root = ET.fromstring(svg)  # noqa: S314 - our own text
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert not [element for element in root.iter() if element.tag.endswith("script")]
    assert len([element for element in root.iter() if element.tag.endswith("polyline")]) == 2
    assert "<script>alert(1)</script> $0.0200" in "".join(root.itertext())
