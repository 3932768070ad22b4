"""The output of ``thriftgate engine status``: replicas that `engine serve` runs or ran."""

from pathlib import Path
from typing import Any

from rich.text import Text

from proxy.cli.engine_traffic import print_traffic
from proxy.cli.terminal import Terminal, empty_table, format_time
from proxy.engines.state.replica_report import (
    FINAL_STATES,
    LOST_STATES,
    ProcessState,
    ReplicaReport,
)
from proxy.engines.state.state_file import ChangeReport, EngineState, read_engine_states
from proxy.engines.state.traffic_file import read_traffic


def change_lines(report: ReplicaReport) -> list[str]:
    """A change of state in lines, with the last output where the engine ended unexpectedly."""
    said = f"Replica {report.name}: {report.state.value.replace('_', ' ')}"
    if report.state is ProcessState.READY:
        said += f" at {report.base_url}"
    if report.reason:
        said += f": {report.reason}"
    elif report.state is ProcessState.READY and report.left_out:
        said += f", without {', '.join(report.left_out)}: its engine does not know that"
    lines = [said]
    if report.last_lines:
        lines += [f"  {line}" for line in report.last_lines] + [f"  All of it: {report.log}"]
    return lines


def print_engine_status(
    terminal: Terminal, folder: Path, profile: str = "", *, as_json: bool = False
) -> None:
    """Print the state of supervised engines; ends the command where there is none of that name."""
    states = read_engine_states(folder)
    found = [each for each in states if profile in {"", each.profile}]
    traffic = read_traffic(folder, terminal.now())
    is_seen = any(one.profile == profile for each in traffic for one in each.replicas)
    if profile and not found and not is_seen:
        terminal.fail(f"Profile {profile} was never served here. `thriftgate engine serve` does.")
    if as_json:
        documents = [_document(state, terminal.now()) for state in found]
        terminal.print_json({"engines": documents, "gateways": traffic})
        return
    if not found:
        terminal.say("No engine was served here yet.")
    for state in found:
        terminal.say(_headline(state, terminal.now()))
        if state.change is not None:
            terminal.say(_change_line(state.change, is_running=state.is_running))
        _show_replicas(terminal, state)
    if found or traffic:
        print_traffic(terminal, traffic, profile)


def _headline(state: EngineState, now: float) -> str:
    since, written = format_time(state.started), format_time(state.written_at)
    if not state.is_running:
        return (
            f"Profile {state.profile}: not running. Process {state.pid}, which supervised it since"
            f" {since}, is gone; below is its last report, of {written}."
        )
    headline = f"Profile {state.profile}: supervised by process {state.pid} since {since}."
    if state.is_stale(now):
        headline += (
            f" Its last report is old, of {written}: the process hangs, or cannot write to its"
            " folder."
        )
    return headline


def _change_line(change: ChangeReport, *, is_running: bool) -> str:
    since = format_time(change.since)
    if change.is_running and is_running:
        return f"A rolling change runs since {since}: replicas are replaced one after the other."
    if change.is_running:
        return f"A rolling change began at {since} and was not finished."
    return f"Last rolling change at {since}: {change.reason.rstrip('.') or 'done'}."


def _show_replicas(terminal: Terminal, state: EngineState) -> None:
    table = empty_table(
        "replica", "state", "since", "pid", "restarts", "url", "reason", right=("pid", "restarts")
    )
    for each in state.replicas:
        cells = (
            each.name,
            ("" if state.is_running or each.state in FINAL_STATES else "was ")
            + each.state.value.replace("_", " "),
            format_time(each.since),
            str(each.pid or "none"),
            str(each.restarts),
            each.base_url,
            each.reason,
        )
        table.add_row(*map(Text, cells))
    terminal.show(table)
    for each in state.replicas:
        if each.state in LOST_STATES or each.left_out:
            terminal.say(*change_lines(each))


def _document(state: EngineState, now: float) -> dict[str, Any]:
    return {
        "profile": state.profile,
        "is_running": state.is_running,
        "is_stale": state.is_stale(now),
        "written_at": round(state.written_at, 3),
        "pid": state.pid,
        "started": state.started,
        "change": state.change,
        "replicas": state.replicas,
    }
