"""The lessons: what a learner's progress counts and links to, and which of them are the thread of the course."""

from __future__ import annotations

from typing import Final, NamedTuple


class Lesson(NamedTuple):
    """A lesson: its number, which its predictions and challenges begin with, its notebook's name, its title."""

    number: str
    notebook: str
    title: str


LESSONS: Final = tuple(
    Lesson(notebook[:2], notebook, title)
    for notebook, title in (
        ("00_start_here", "Start here"),
        ("01_memory_wall", "The memory wall"),
        ("02_splitting", "Splitting"),
        ("03_scheduling", "Scheduling"),
        ("04_accumulation", "Accumulation"),
        ("05_rematerialization", "Re-materialization"),
        ("06_pytorch_pipeline", "A pipeline in PyTorch"),
        ("07_batchnorm_dropout_and_randomness", "BatchNorm, dropout, randomness"),
        ("08_experiments", "Experiments"),
        ("09_beyond_gpipe", "Beyond GPipe"),
        ("10_skip_connections", "Skip connections"),
        ("11_reading_the_paper", "Reading the paper"),
        ("12_capstone_transformer", "Capstone"),
        ("13_without_a_flush", "Without a flush"),
        ("14_pipelines_among_other_ways", "Pipelines among other ways"),
        ("15_beyond_one_machine", "Beyond one machine"),
        ("16_experts_in_a_pipeline", "Experts in a pipeline"),
        ("17_micro_batches_that_are_not_alike", "Micro-batches that are not alike"),
    )
)


THREAD: Final = ("00", "01", "02", "03", "04", "05", "06", "09", "14", "08", "12", "15")
"""The course itself, in reading order. The other lessons are side rooms: none of the thread needs them.

Numbers are names. After 06 one learns which schedules there are (09) and what stands beside a pipeline (14), then
chooses among them by measuring (08), trains with the choice (12), and goes to several machines (15).
"""
READING_ORDER: Final = (*THREAD, *(one.number for one in LESSONS if one.number not in THREAD))


def lesson(number: str) -> Lesson:
    """The lesson of that number, such as "03". Raises ValueError for one that does not exist."""
    for one in LESSONS:
        if one.number == number:
            return one
    raise ValueError(f"there is no lesson {number!r}; there are {', '.join(one.number for one in LESSONS)}, as text")
