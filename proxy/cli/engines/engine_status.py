"""The output of ``thriftgate engine status``: replicas that `engine serve` runs or ran."""

from pathlib import Path
from typing import Any

from rich.text import Text

from proxy.cli.engines.engine_traffic import print_traffic
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
    change = f"Replica {report.name}: {report.state.value.replace('_', ' ')}"
    if report.state is ProcessState.READY:
        change += f" at {report.base_url}"
    if report.reason:
        change += f": {report.reason}"
    elif report.state is ProcessState.READY and report.left_out:
        change += f", without {', '.join(report.left_out)}: its engine does not know that"
    lines = [change]
    if report.last_lines:
        lines += [f"  {line}" for line in report.last_lines] + [f"  All of it: {report.log}"]
    return lines


def print_engine_status(
    terminal: Terminal, folder: Path, profile: str = "", *, as_json: bool = False
) -> None:
    """Print the state of supervised engines; ends the command where there is none of that name."""
    states = read_engine_states(folder)
    shown = [state for state in states if profile in {"", state.profile}]
    traffic = read_traffic(folder, terminal.now())
    is_seen = any(one.profile == profile for gateway in traffic for one in gateway.replicas)
    if profile and not shown and not is_seen:
        terminal.fail(f"Profile {profile} was never served here. `thriftgate engine serve` does.")
    if as_json:
        documents = [_document(state, terminal.now()) for state in shown]
        terminal.print_json({"engines": documents, "gateways": traffic})
        return
    if not shown:
        terminal.say("No engine was served here yet.")
    for state in shown:
        terminal.say(_headline(state, terminal.now()))
        if state.change is not None:
            terminal.say(_change_line(state.change, is_running=state.is_running))
        _show_replicas(terminal, state)
    if shown or traffic:
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
    for replica in state.replicas:
        cells = (
            replica.name,
            ("" if state.is_running or replica.state in FINAL_STATES else "was ")
            + replica.state.value.replace("_", " "),
            format_time(replica.since),
            str(replica.pid or "none"),
            str(replica.restarts),
            replica.base_url,
            replica.reason,
        )
        table.add_row(*map(Text, cells))
    terminal.show(table)
    for replica in state.replicas:
        if replica.state in LOST_STATES or replica.left_out:
            terminal.say(*change_lines(replica))


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
