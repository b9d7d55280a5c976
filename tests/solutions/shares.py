"""What an answer of the bank earns in a class, by what is written beside it."""

from gpipe_edu.judge.exercise import find_exercise

WRONG_BESIDES = {
    "sorts_it_first": "sorted samples are not in their order either",
    "NeverFreesWhatLayersSave": "activations are kept, which is what the stage is there to save",
    "KeepsInTheLayers": "the same",
    "adds_into_dy": "its own W computes with what dy has become",
    "clamps_the_targets": "the loss is that of other targets",
    "KeepsInTheStage": "more than a stage's input is kept",
    "steps_in_w": "the next micro-batch meets other weights",
    "squares_t_in_place": "its own backward computes with what was squared",
    "a_number_for_each_micro_batch": "W takes what it needs from the block, not from what I gave",
    "freezes_at_the_end": "the next call finds nothing to train",
    "freezes_one_weight": "the next call gives it no gradient",
    "recomputes_always": "where blocks are few, all kept takes less, and no plan is found",
    "a_device_is_never_full": "it finds no plan where the only one fits to the byte",
    "a_tenth_in_reserve": "the same",
    "keeps_the_first_weights": "each step begins with the weights of the first",
    "sorts_the_callers_list": "layers no longer stand with their ranks",
}
"""Answers of the bank that break a promise, and whose algorithm is wrong, too."""


def share_of(entry):
    """What an answer of the bank earns: nothing if its algorithm is wrong, three quarters but for one promise."""
    if not entry.slip:
        return 1
    return 0.75 if entry.slip in find_exercise(entry.key).promises and entry.name not in WRONG_BESIDES else 0
