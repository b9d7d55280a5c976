"""Options that several commands for a class have."""

from typing import Annotated

import typer

Tasks = Annotated[str, typer.Option(help="Such as 02,07 or ex02/clock. Default: all.")]
Seeds = Annotated[int, typer.Option(min=1, max=20, help="How often each answer is judged; the worst counts.")]
AllOrNothing = Annotated[bool, typer.Option("--all-or-nothing", help="No points for what is partly right.")]
