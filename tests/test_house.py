"""The rules of the house that no linter knows: sizes, names, twins, the top level."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from compaction.facts.fact import FactKind
from compaction.facts.rendering import _LABELS
from proxy.settings import PREFIX, Settings
from tests.fakes.source_trees import PACKAGES, ROOT, is_test, nodes, nodes_of, syntax_trees

TOP_LEVEL = {
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "compaction",
    "constraints.txt",
    "dashboards",
    "migrations",
    "proxy",
    "pyproject.toml",
    "slo",
    "tests",
}
IGNORED = {"build", "dist", "htmlcov", "var"}
BANNED_NAMES = {"common", "core", "data", "helpers", "info", "types", "utils"}
BANNED_SUFFIXES = ("Manager", "Handler", "Helper", "Service", "Impl")
FILE_WALL = 400
FUNCTION_WALL = 50
PARAMETER_WALL = 6
#: Where `except Exception` may stand: the ASGI boundary, the background runner, and planning,
#: compaction and replica routing, which are optimisers: without them the call goes unmodified. The
#: thread that exports spans lives through whatever OpenTelemetry's SDK raises. A reload keeps the
#: snapshot in force whatever a file does to it.
BROAD = {
    "proxy/api/endpoint.py",
    "proxy/calls/attempts/recalling.py",
    "proxy/calls/shared_answers/serving.py",
    "proxy/reloading.py",
    "proxy/services/background.py",
    "proxy/services/planning/planning.py",
    "proxy/services/compaction/compactor.py",
    "proxy/services/engines/replica_routing.py",
    "proxy/services/fast_path/comparisons.py",
    "proxy/services/fast_path/small_first.py",
    "proxy/services/telemetry/otlp_export.py",
}
#: Where TOML is parsed: what an operator writes is read with its lines by `slo/toml`; the demo
#: reads texts that are shipped with it.
TOML_PARSERS = {
    "proxy/tools/demo/conversation.py",
    "slo/toml/line_numbers.py",
    "slo/toml/nodes.py",
}
#: Sources without a twin of their own, and where they are tested instead.
TESTED_ELSEWHERE: dict[str, str] = {
    "compaction/language/phrases.py": "tests/compaction/language/test_speech_acts.py",
    "compaction/language/latin_phrases.py": "tests/compaction/language/test_speech_acts.py",
    "compaction/language/other_phrases.py": "tests/compaction/language/test_speech_acts.py",
    "proxy/calls/answer_cache_port.py": "tests/proxy/services/fast_path/test_answer_cache.py",
    "proxy/records/receipt.py": "tests/proxy/store/journal/test_sent_attempts.py",
    "dashboards/views/cache_health.py": "tests/proxy/pages/resources/ledger/test_cache_health.py",
    "dashboards/views/calls.py": "tests/proxy/pages/resources/ledger/test_calls.py",
    "dashboards/views/fast_path.py": "tests/proxy/pages/resources/ledger/test_fast_path.py",
    "dashboards/views/latency.py": "tests/proxy/pages/resources/ledger/test_latency.py",
    "dashboards/views/savings.py": "tests/proxy/pages/resources/ledger/test_savings.py",
    "proxy/cli/engines/engine_status.py": "tests/proxy/cli/engines/test_engine_processes.py",
    "proxy/cli/gateway_process.py": "tests/proxy/cli/test_serve.py",
    "proxy/pages/resources/callers/contexts.py": "tests/whole/test_contexts.py",
    "proxy/pages/resources/callers/feedback.py": "tests/whole/test_small_first.py",
    "proxy/store/sql/views/events.py": "tests/proxy/pages/resources/ledger/test_events.py",
    "proxy/store/sql/views/features.py": "tests/proxy/pages/resources/ledger/test_features.py",
    "proxy/store/sql/views/savings.py": "tests/proxy/pages/resources/ledger/test_savings.py",
    "proxy/tools/engine_demo/messages.py": "tests/proxy/tools/engine_demo/test_result.py",
    "proxy/tools/engine_demo/run.py": "tests/proxy/cli/engines/test_engine_demo.py",
    "proxy/tools/engine_demo/session.py": "tests/whole/test_self_hosted_engine.py",
    "proxy/cli/session.py": "tests/proxy/cli/test_main.py",
    "proxy/store/receipt_import.py": "tests/proxy/cli/reports/test_receipts.py",
    "proxy/store/sql/rollups/rollup_tables.py": "tests/proxy/store/sql/test_schema.py",
    "proxy/store/ports.py": "tests/proxy/store/redis/test_budget_store_laws.py",
    "proxy/store/redis/requests.py": "tests/proxy/store/redis/test_budget_store.py",
    "proxy/api/call_reading.py": "tests/proxy/api/test_endpoint.py",
    "proxy/app_context.py": "tests/proxy/services/budgets/test_setup.py",
}

#: Tests whose names begin with no source's, as they test several together.
TESTS_OF_SEVERAL_SOURCES = {
    "tests/compaction/facts/test_bindings.py",
    "tests/compaction/test_languages.py",
    "tests/compaction/test_patterns.py",
    "tests/compaction/test_retention.py",
    "tests/dashboards/test_grafana.py",
    "tests/proxy/pages/test_api_document.py",
    "tests/proxy/pages/test_every_route.py",
    "tests/proxy/pages/test_odd_requests.py",
    "tests/proxy/pages/test_other_teams.py",
    "tests/proxy/pages/test_random_views.py",
    "tests/proxy/providers/messages/test_round_trip.py",
    "tests/proxy/providers/messages/test_sdk.py",
    "tests/proxy/services/budgets/test_engine_budgets.py",
    "tests/proxy/tools/simulator/test_call_faults.py",
    "tests/slo/controller/test_incident.py",
    "tests/slo/controller/test_invariants.py",
    "tests/slo/controller/test_traces.py",
}

_ANY_QUESTION_WORD = re.compile(r"(What(ever)?|Whether|How|Why|Who(m|se)?|When|Where|Which)\b")


def sources(*roots: str) -> list[Path]:
    return sorted(path for root in roots for path in (ROOT / root).rglob("*.py"))


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: str) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in nodes_of(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_the_top_level_holds_nothing_unasked():
    names = {p.name for p in ROOT.iterdir() if not p.name.startswith(".")} - IGNORED
    names = {p for p in names if not p.endswith(".egg-info")}

    assert names <= TOP_LEVEL
    assert names >= TOP_LEVEL


def test_files_stay_under_the_wall():
    long = {
        name(path): lines
        for path in sources(*PACKAGES, "tests")
        if (lines := len(path.read_text(encoding="utf8").splitlines())) > FILE_WALL
    }

    assert long == {}


def test_functions_stay_under_the_wall():
    long = [
        f"{path}:{function.lineno} {function.name}"
        for path in nodes()
        for function in functions(path)
        if (function.end_lineno or 0) - function.lineno + 1 > FUNCTION_WALL
    ]

    assert long == []


def test_functions_take_few_parameters():
    many = []
    for path in nodes():
        if is_test(path):
            continue
        for function in functions(path):
            parameters = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
            if len([a for a in parameters if a not in {"self", "cls"}]) > PARAMETER_WALL:
                decorated = [ast.unparse(d) for d in function.decorator_list]
                is_command = function.name.endswith("_command")  # its options are a person's
                if not is_command and not any(
                    ".command" in d or ".callback" in d for d in decorated
                ):
                    many.append(f"{path}:{function.lineno} {function.name}")

    assert many == []


def test_no_module_has_a_name_that_says_nothing():
    vague = [name(p) for p in sources(*PACKAGES) if BANNED_NAMES & set(p.with_suffix("").parts)]

    assert vague == []


def test_no_class_has_a_name_that_says_nothing():
    vague = [
        f"{path}:{node.name}"
        for path, nodes_of_file in nodes().items()
        for node in nodes_of_file
        if isinstance(node, ast.ClassDef)
        and (node.name.endswith(BANNED_SUFFIXES) or node.name.startswith("Base"))
    ]

    assert vague == []


def test_docstrings_do_not_begin_with_any_question_word():
    asking = [
        f"{path}:{node.body[0].lineno} {text}"
        for path in syntax_trees()
        for node in nodes_of(path)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and (text := ast.get_docstring(node))
        and _ANY_QUESTION_WORD.match(text)
    ]

    assert asking == []


def test_package_files_hold_a_docstring_and_nothing_else():
    trees = syntax_trees().items()
    full = [path for path, t in trees if path.endswith("__init__.py") and len(t.body) != 1]

    assert full == []


def test_broad_excepts_stand_in_three_places_only():
    broad = {
        path
        for path, nodes_of_file in nodes().items()
        for node in nodes_of_file
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or re.search(r"\bException\b", ast.unparse(node.type)))
    }

    assert broad <= BROAD


def test_toml_is_parsed_in_one_place():
    readers = {
        path
        for path, nodes_of_file in nodes().items()
        if not is_test(path)
        for node in nodes_of_file
        if isinstance(node, ast.Import | ast.ImportFrom) and "tomllib" in ast.unparse(node)
    }

    assert readers <= TOML_PARSERS


def test_every_source_has_its_twin():
    missing = []
    for path in sources(*PACKAGES):
        source = name(path)
        if path.name == "__init__.py" or source.startswith("migrations/"):
            continue
        twin = ROOT / "tests" / path.relative_to(ROOT).with_name(f"test_{path.name}")
        if not twin.exists() and source not in TESTED_ELSEWHERE:
            missing.append(source)

    assert missing == []


def test_sources_listed_as_tested_elsewhere_are_tested_there():
    for source, test in TESTED_ELSEWHERE.items():
        assert (ROOT / source).exists(), source
        assert (ROOT / test).exists(), test


def test_every_test_has_its_source():
    """A test's name begins with its source's: ``test_planner_items.py`` tests ``planner.py``."""
    stray = []
    for room in PACKAGES:
        for path in sorted((ROOT / "tests" / room).rglob("test_*.py")):
            folder = ROOT / path.parent.relative_to(ROOT / "tests")
            words = path.stem.removeprefix("test_").split("_")
            names = ["_".join(words[:end]) for end in range(1, len(words) + 1)]
            candidates = (folder / f"{name}{end}" for name in names for end in (".py", ".toml"))
            if not any(source.exists() for source in candidates):
                stray.append(name(path))

    assert sorted(stray) == sorted(TESTS_OF_SEVERAL_SOURCES)


def test_the_readme_of_commands_mentions_every_setting():
    readme = (ROOT / "proxy/cli/README.md").read_text(encoding="utf8")
    absent = [n for f in Settings.model_fields if (n := PREFIX + f.upper()) not in readme]

    assert absent == []


def test_the_readme_of_compaction_names_every_kind_of_fact_and_how_it_is_sent():
    readme = (ROOT / "compaction/README.md").read_text(encoding="utf8")
    absent = [k for k in FactKind if f"\n| `{k}` | `{_LABELS[k]}` |" not in readme]

    assert absent == []
