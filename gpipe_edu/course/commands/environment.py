"""`environment`: can this machine run the course?"""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from gpipe_edu.course.environment import look


def run() -> int:
    """Say what the course needs, what this machine has, and how to get what is missing."""
    console = Console(highlight=False)
    table = Table("", "what", "found", "for", "how to get it", box=None, pad_edge=False)
    requirements = look()
    for needed in requirements:
        mark = "[green]ok[/]" if needed.ok else "[bold red]missing[/]" if needed.required else "[yellow]optional[/]"
        table.add_row(mark, needed.name, needed.found or "-", needed.purpose, "" if needed.ok else needed.cure)
    console.print(table)
    missing = [needed.name for needed in requirements if needed.required and not needed.ok]
    console.print(f"Missing: {', '.join(missing)}." if missing else "Ready: the course runs here.", style="bold")
    return 1 if missing else 0
