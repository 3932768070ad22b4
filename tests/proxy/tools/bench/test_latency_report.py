from proxy.tools.bench.latency_report import chart_lines, error_lines, latency_table
from proxy.tools.bench.latency_summary import CellFigures, cell_figures
from tests.proxy.tools.bench.test_latency_summary import SHAPE, call, failure


def cell(*ttfts_s: float, limits: dict[str, float] | None = None) -> CellFigures:
    return cell_figures(SHAPE, [call(ttft_s=ttft) for ttft in ttfts_s], limits or {}, 0.0)


def cells_of(column: str, *rows: CellFigures) -> list[str]:
    table = latency_table(rows)
    headers = [shown_column.header for shown_column in table.columns]
    return [str(cell) for cell in table.columns[headers.index(column)].cells]


def test_the_table_has_a_row_for_each_combination():
    assert cells_of("TTFT p50", cell(0.2), cell(1.5)) == ["200", "1,500"]
    assert cells_of("cached", cell(0.2)) == ["?"]


def test_goodput_has_columns_only_where_limits_are_set():
    assert cells_of("within limits", cell(0.2, 0.9, limits={"ttft": 500})) == ["50%"]
    assert "within limits" not in [column.header for column in latency_table([cell(0.2)]).columns]


def test_failures_are_listed_by_name_most_frequent_first():
    failed = cell_figures(SHAPE, [failure("a"), failure("b"), failure("b")], {}, 0.0)

    assert list(error_lines([failed])) == ["Failed: 2 × b", "Failed: 1 × a"]  # noqa: RUF001 - as shown


def test_the_chart_marks_percentiles_on_a_logarithmic_scale():
    lines = list(chart_lines([cell(0.1), cell(1.0)], 63))
    axis, first, second = lines[2:5]

    assert axis.split() == ["100", "200", "500", "1,000"]
    assert first.index("●") == axis.index("100")
    assert second.index("●") == axis.index("1,000")


def test_the_chart_draws_a_line_from_p50_to_p99():
    spread = [0.1] * 50 + [0.2] * 45 + [0.5] * 5
    row = list(chart_lines([cell(*spread)], 63))[3]

    assert row.index("●") < row.index("┼") < row.index("│")


def test_a_combination_without_figures_is_not_in_the_chart():
    failed = cell_figures(SHAPE, [failure("a")], {}, 0.0)

    assert list(chart_lines([failed], 80)) == []
