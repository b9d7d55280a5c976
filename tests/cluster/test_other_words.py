"""A call as one makes it elsewhere is right, or is told in a sentence what to do; nothing is lost, nothing waits."""

from . import other_words
from .on_ranks import run

ONE = "every rank of a pipeline must be given the same mini-batch, also those that read nothing of it"

SAID = {
    "a name": "TypeError: schedule is '1f1b'; it must be a Schedule, which also says into how many micro-batches a "
    "mini-batch is cut: ge.one_f_one_b(2, 8), say, for 2 ranks and 8 micro-batches",
    "a name of a recipe with V": "is cut: recipes.by_name('interleaved', 2, 8), say",
    "no name": "TypeError: schedule is 4; it must be a Schedule",
    "partitions": "TypeError: Pipeline has no argument 'partitions'; the schedule says it: ge.one_f_one_b(2, 8) has 2",
    "another argument": "TypeError: Pipeline has no argument 'colour'; help(Pipeline) lists what it has",
    "a sum beside a first step": "ValueError: rank 1 was given a call of step(), and rank 0 a call of sum_over_ranks()",
    "a clip beside a first prediction": "rank 1 was given a call of clip_grad_norm(1, norm_type=2), and rank 0 a call",
    "a sum of two on rank 0": "TypeError: rank 0 was given a tensor of shape (2,); give one number",
    "called": "TypeError: a pipeline of processes is not called as a net is",
    "state_dict": "AttributeError: a pipeline of processes has no 'state_dict'; a rank has the weights of its own",
    "load_state_dict": "load before the pipeline takes the net, net.load_state_dict(...)",
    "to": "AttributeError: a pipeline of processes has no 'to'; a pipeline stays on the device that it was given",
    "double": "in the types that the net had: net.double(), say, before Pipeline(net, ...)",
    "modules": "are in pipeline.layers",
    "a slip": "AttributeError: a pipeline of processes has no 'stepp'",
    "target": "TypeError: step has no argument 'target'; call it y: pipeline.step(x, y)",
    "deepcopy": "TypeError: a pipeline of processes can't be copied or pickled",
    "copy": "TypeError: a pipeline of processes can't be copied or pickled",
    "torch.save": "TypeError: a pipeline of processes can't be copied or pickled",
    "no y on rank 0": f"TypeError: rank 0 was given y=None; {ONE}",
    "no y": f"was given y=None; {ONE}",
    "no x on rank 1": f"TypeError: rank 1 was given x=None; {ONE}",
    "no x to predict": f"was given x=None; {ONE}",
    "norm_type": "ValueError: norm_type is 0; it must be a number above 0, such as 2, or infinity",
    "max_norm": "TypeError: clip_grad_norm has no argument 'max_norm'; it is the first one",
    "clips that differ": "ValueError: rank 1 was given a call of clip_grad_norm(2, norm_type=2), and rank 0 a call of "
    "clip_grad_norm(1, norm_type=2); all ranks must make the same calls with the same arguments",
    "a clip beside a step": "ValueError: rank 1 was given a call of step(), and rank 0 a call of clip_grad_norm(1, ",
    "a sum beside a prediction": "rank 1 was given a call of sum_over_ranks(), and rank 0 a call of predict()",
}


def test_calls_as_made_elsewhere_are_told_what_to_do_and_one_may_go_on(group):
    for said, apart, stateful in run(group, 2, other_words.calls):
        assert said.keys() == SAID.keys()
        assert {name: said[name] for name, words in SAID.items() if words not in said[name]} == {}
        assert apart < 1e-12, "a step behind all that is right"
        assert not stateful, "what asks for a state_dict sees that there is none"


def test_eval_evaluates(group):
    assert max(run(group, 2, other_words.evaluated)) < 1e-12


def test_every_kind_of_norm_is_that_of_all_stages(group):
    for found in run(group, 2, other_words.clipped):
        assert len(found) == len(other_words.NORMS)
        assert max(found) < 1e-12


def test_every_rank_may_know_the_loss(group):
    assert max(run(group, 2, other_words.losses)) < 1e-12


def test_a_rank_that_failed_says_so_again_and_sends_nothing(group):
    """What it sent would be taken for what the others wait for, and end them as if they had been killed."""
    (failed, *others), last = run(group, 2, other_words.after_an_error)
    assert failed == "too hot"
    assert others == [
        "rank 0 can't go on after an error in an earlier call, ValueError: too hot; the others wait in the middle of "
        "it. Don't catch that error: with Ranks it ends all of them, with its sentence. Then go on from the last step "
        "that was saved"
    ]
    assert last == []


def test_ranks_in_a_process_group_that_is_there_say_so_and_leave_it(group):
    for said, together in run(group, 2, other_words.a_second_group):
        assert said.startswith("RanksError: this process has a process group already; leave torch.distributed.init_pro")
        assert together == 2.0
