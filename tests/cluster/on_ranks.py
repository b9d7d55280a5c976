"""A function on several ranks at once, in processes that stay for the next one."""

from functools import partial

from tests.processes import PATIENCE

from . import jobs


def run(group, K, function, *arguments, **named):
    """What `function` returns on each of K ranks."""
    return group.run([partial(jobs.unwatched, function, *arguments, **named)] * K, PATIENCE).values
