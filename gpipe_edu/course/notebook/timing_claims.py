"""What a lesson claims about timing, compared with the reader's own machine: a busy one may contradict the text.

That would be no bug in the course, so the result is reported and never asserted.
"""

from __future__ import annotations

from . import output


def on_your_machine(claim: str, held: bool) -> None:
    """Say whether `claim`, a sentence of the text about times, `held` in the run that has just been timed."""
    if held:
        output.show(f"**On your machine, too:** {claim}")
    else:
        output.show(
            f"**Not this time:** {claim} Your machine was probably busy with something else while it timed the ops. "
            "Run the cell again."
        )
