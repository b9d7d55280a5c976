"""What a notebook shows for a guide: steps over K and T to point at, memory by part, and the best plan's schedule.

It is HTML without a script, so it needs no kernel. Colours and the chart are those of `gpipe_edu.view`.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import TYPE_CHECKING, Final

from gpipe_edu.sizing.in_words import PARTS, duration, size
from gpipe_edu.sizing.plan import Plan
from gpipe_edu.view.html import fill
from gpipe_edu.view.palette import PAGE, PAINTS, ground_of
from gpipe_edu.view.svg import render
from gpipe_edu.view.theme import notebook_theme, on_a_page

if TYPE_CHECKING:
    from gpipe_edu.sizing.planner import Planner

_PALEST: Final = 1.5
"""A step that takes so many times as long as the best has no colour left."""

_LANES: Final = 16
"""A chart of more devices is too high to be read beside the rest."""

KEPT: Final = 'data-lm-suppress-shortcuts="true"'
"""Without it a notebook takes the keys meant for what has the focus."""

_FILLS: Final = {
    "weights": PAINTS["F"].fill,
    "gradients": PAINTS["B"].fill,
    "optimizer": ground_of("light").hatch,
    "activations": PAINTS["W"].fill,
}


def as_html(guide: Planner, theme: str = "", *, folded: bool = False) -> str:
    """The picture of a guide, for a notebook or a page, whose theme it takes if none is given.

    folded: whether the schedule is to be opened by hand, so that the rest is seen at once on a laptop.
    """
    theme = theme or (PAGE if on_a_page() else notebook_theme())
    best, job = guide.best, guide.job
    cures = f"What alone would cure it: {'; '.join(guide.cures())}."
    said = [f"Best: {best.knobs}. {guide.reason()}"] if best else [guide.shortage(), cures]
    colours = ground_of(theme)._asdict() | {"fill": PAINTS["F"].fill}
    return fill(
        __file__,
        colours=f'style="{"; ".join(f"--{name}: {colour}" for name, colour in colours.items())}"',
        model=escape(f"{job.model.name}, N={job.batch:,}, on {job.machine.devices:,} devices"),
        grid="".join(_grid(guide)),
        memory="".join(_memory(best or guide.closest)),
        time="".join(_time(best)) if best else "",
        gantt=_gantt(best, theme, folded) if best else "",
        said="".join(f"<p>{escape(sentence)}</p>" for sentence in (*said, *guide.warnings())),
        kept=KEPT,
        ways=escape(str(guide.ways).removeprefix("Ways weighed: ")),
    )


def _grid(guide: Planner) -> Iterator[str]:
    """The rows of a table with a column for each K."""
    rows = guide.cells()
    Ks = sorted({K for cells in rows.values() for K in cells})
    yield "<tr><td></td>"
    yield from (f'<th scope="col">K={K}</th>' for K in Ks)
    for row, cells in rows.items():
        yield f'</tr><tr><th scope="row">{row}</th>'
        yield from (_cell(guide, cells.get(K, "")) for K in Ks)
    yield "</tr>"


def _cell(guide: Planner, plan: Plan | str) -> str:
    """A plan's step, the paler the longer, or what it lacks; a description appears when one points at it."""
    if isinstance(plan, str):
        return f'<td class="none">{plan}</td>'
    k = plan.fullest
    about = [f"{plan.knobs}: {size(plan.memory[k])} on its fullest device"]
    if plan.fits and guide.best:
        times = plan.step / guide.best.step
        about += [f"{times:.2f} times the best step"] if plan is not guide.best else []
        about.append(f"bubble {plan.bubble:.1%}, MFU {plan.mfu:.0%}")
        shade = round(100 * max(0.0, (_PALEST - times) / (_PALEST - 1)))
        look, shown = f'class="fits" style="--near: {shade}%"', duration(plan.step)
    else:
        look, shown = 'class="short"', f"{size(plan.short)} short"
    look = look.replace('class="', 'class="best ') if plan is guide.best else look
    return f'<td {look} tabindex="0">{shown}<span role="note">{escape(", ".join(about))}</span></td>'


def _memory(plan: Plan) -> Iterator[str]:
    """A bar of parts, one after another, a line at what may be used, and the legend."""
    machine = plan.job.machine
    whole = max(machine.memory, sum(plan.held.values()))
    yield '<div class="stack">'
    for name, count in plan.held.items():
        yield f'<i style="width: {count / whole:.2%}; background: {_FILLS[name]}" title="{name} {size(count)}"></i>'
    yield f'<b style="left: {machine.usable / whole:.2%}"></b></div><p class="legend">'
    for name, count in plan.held.items():
        yield f'<span><i style="background: {_FILLS[name]}"></i>{name} {size(count)}</span> '
    yield f"<span>of {size(machine.memory)}; up to the line, {size(machine.usable)}, may be used</span></p>"


def _time(plan: Plan) -> Iterator[str]:
    """A bar for each part of the step."""
    yield '<section><h4>Where a step\'s time goes</h4><table class="time">'
    for name, seconds in plan.parts.items():
        share = seconds / plan.step
        if share > 0.005:
            bar = f'<div class="bar"><i style="width: {share:.1%}"></i></div>'
            yield f"<tr><th>{PARTS[name]}</th><td>{bar}</td><td>{duration(seconds)}</td><td>{share:.0%}</td></tr>"
    yield "</table></section>"


def _gantt(plan: Plan, theme: str, folded: bool) -> str:
    """The order of ops, of only a few micro-batches where there are many, since they repeat."""
    if not 1 < plan.K <= _LANES:
        return ""
    few = min(plan.M, 3 * plan.K)
    some = f" with {few} of its {plan.M} micro-batches, which makes its bubble larger" if few < plan.M else ""
    chart = render(plan.timeline_of(few), width=900, theme=theme)
    title, drawn = f"Its schedule{some}", f'<div class="wide">{chart}</div>'
    return f"<details><summary {KEPT}>{title}</summary>{drawn}</details>" if folded else f"<h4>{title}</h4>{drawn}"
