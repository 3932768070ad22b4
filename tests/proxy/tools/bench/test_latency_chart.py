import re

import msgspec
import pytest

from proxy.tools.bench.latency_chart import latency_png, latency_specification
from proxy.tools.bench.latency_summary import CellFigures, CellShape, cell_figures
from proxy.tools.bench.prompts import PrefixState
from tests.proxy.tools.bench.test_latency_summary import call

CELLS = [
    cell_figures(
        CellShape(prompt_tokens=tokens, prefix=prefix, concurrency=callers),
        [call(ttft_s=0.001 * tokens * callers)],
        {},
        0.0,
    )
    for tokens in (128, 2048)
    for callers in (1, 4)
    for prefix in PrefixState
]


def panels(cells: list[CellFigures]) -> list[list[dict[str, object]]]:
    return [column["vconcat"] for column in latency_specification(cells, "t", "s")["hconcat"]]


def test_there_is_a_column_for_each_prompt_length_and_a_row_for_each_figure():
    columns = panels(CELLS)

    assert [len(column) for column in columns] == [3, 3]


def test_every_point_of_a_row_lies_on_the_axis_that_its_columns_share():
    first, second = (column[0] for column in panels(CELLS))
    low, high = first["encoding"]["y"]["scale"]["domain"]  # type: ignore[index]
    values = [p["value"] for panel in (first, second) for p in panel["data"]["values"]]  # type: ignore[index]

    assert first["encoding"]["y"]["scale"] == second["encoding"]["y"]["scale"]  # type: ignore[index]
    assert low < min(values) <= max(values) < high


def test_a_figure_that_the_server_does_not_tell_has_no_row():
    unknown = [
        cell_figures(CELLS[0].shape, [call(output_tokens=None, streamed_tokens=None)], {}, 0.0)
    ]

    assert len(panels(unknown)[0]) == 1


def test_the_legend_names_the_prefixes_that_were_measured():
    cold = [cell for cell in CELLS if cell.shape.prefix is PrefixState.COLD]
    colors = [panel["encoding"]["color"]["scale"] for panel in panels(cold)[0]]  # type: ignore[index]

    assert {tuple(color["domain"]) for color in colors} == {("cold",)}
    assert {len(color["range"]) for color in colors} == {1}


@pytest.mark.slow
def test_the_legend_shows_the_dashes_of_percentiles():
    vl_convert = pytest.importorskip("vl_convert", reason="the extra [plots] is not installed")
    specification = latency_specification(CELLS, "t", "s")
    picture = vl_convert.vegalite_to_svg(msgspec.json.encode(specification).decode())
    legend = picture[picture.index(">percentile<") - 4_000 :]

    for dash in ("6,3", "2,3"):
        symbol = re.search(rf'<path[^>]*stroke="#444444"[^>]*stroke-dasharray="{dash}"', legend)
        assert symbol is not None, dash


@pytest.mark.slow
def test_the_chart_is_a_png():
    pytest.importorskip("vl_convert", reason="the extra [plots] is not installed")

    png = latency_png(CELLS, "Latency of tiny", "http://127.0.0.1:8000/v1")

    assert png.startswith(b"\x89PNG")
    width, height = (int.from_bytes(png[offset : offset + 4]) for offset in (16, 20))
    assert width > 1000
    assert height > 800
