"""The pretend GPU for `benchmarks.gpu`, in each of its processes."""

from . import cuda


def start() -> None:
    from . import loaded  # noqa: F401  # which pretends when it is imported


def faults() -> list[str]:
    return cuda.races()
