"""`calibrate`: what this machine does in a second, in a file that `plan --machine` takes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from gpipe_edu.base.terminal import bad_arguments, needing
from gpipe_edu.base.words import program
from gpipe_edu.sizing import machine_file, size


def run(
    file: Annotated[Path, typer.Argument(help="The file to write, such as machine.toml.")],
    devices: Annotated[
        int | None, typer.Option(min=1, help="How many work at the same time. Default: all GPUs, or all cores.")
    ] = None,
) -> int:
    """Measure this machine for `plan --machine`: matrix products of several widths, memory, and a link. Takes seconds.

    Keep the machine quiet meanwhile.
    """
    console = Console(highlight=False)
    with bad_arguments():
        if file.suffix != machine_file.SUFFIX:
            raise ValueError(f"{str(file)!r} must end in {machine_file.SUFFIX}, so that plan knows it for a file")
        if not file.parent.is_dir():
            raise ValueError(f"the folder of {str(file)!r} does not exist; create it first")
        with needing("torch", "calibrate"):
            from gpipe_edu.sizing.measurement import count_devices, measure_machine
        figures, products = measure_machine(devices or count_devices())
    machine_file.write(file, figures, products)
    console.print(f"Measured: {figures['about']}.", markup=False)
    table = Table(box=None, show_header=False, pad_edge=False)
    for width, speed in products:
        table.add_row(f"products of width {width}", f"{speed / 1e9:,.4g} GFLOP/s")
    table.add_row("memory", f"{figures['bandwidth'] / 1e9:,.4g} GB/s, {size(figures['memory'])} a device")
    table.add_row("a block", f"{figures['overhead'] * 1e6:,.4g} µs, however little there is to do")
    if figures["link"]:
        latency = f"{figures['latency'] * 1e6:,.4g} µs for an empty message"
        table.add_row("between devices", f"{figures['link'] / 1e9:,.4g} GB/s, {latency}")
    console.print(table)
    console.print(f"wrote {file}: {program()} plan --machine {file}", markup=False, soft_wrap=True)
    return 0
