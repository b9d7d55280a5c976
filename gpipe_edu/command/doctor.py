"""`doctor`: can this machine run the course?"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from gpipe_edu.course.environment import look


def run() -> int:
    """Print a table of what is here; returns 0 if everything that every learner needs is, else 1."""
    console = Console(highlight=False)
    table = Table("", "what", "found", "for", "how to get it", box=None, pad_edge=False)
    findings = look()
    for finding in findings:
        mark = "[green]ok[/]" if finding.ok else "[bold red]missing[/]" if finding.required else "[yellow]optional[/]"
        table.add_row(mark, finding.name, finding.found or "-", finding.purpose, "" if finding.ok else finding.cure)
    console.print(table)
    missing = [finding.name for finding in findings if finding.required and not finding.ok]
    console.print(f"Missing: {', '.join(missing)}." if missing else "Ready: the course runs here.", style="bold")
    return 1 if missing else 0
