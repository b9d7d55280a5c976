"""Functions that may ask the judge."""

from gpipe_edu.process.asking import ask_judge


def perform(function, **given):
    return function(ask_judge, **given)
