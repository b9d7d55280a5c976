"""One process per device, on any number of machines: PyTorch's engine for that, driven by our schedules.

`pipeline.py` is what a rank uses. PyTorch's `torch.distributed.pipelining` is the engine: `engine.py` writes our rows
as its actions and gives each micro-batch its share of the loss, `gradients.py` adds up those of replicas and hands them
to the weights once, with `ties.py` for weights that several ranks hold; `optimizer_checks.py` notices what takes one
rank's weights for all, with `schedulers_and_scalers.py` for what leaves no trace on an optimizer, and
`pytorch/shared_buffers.py` who writes to a buffer of several ranks; `replica_buffers.py` gives replicas one set of
buffers, and `experts.py` knows the weights that replicas do not share. `torch_private.py` alone has the private names
of PyTorch's pipelining. What a pipeline refuses, how it is cut and what a loss counts is left to `gpipe_edu.pytorch`:
one gate for both engines. `layer_building.py` lets each rank build only its own layers. `other_words.py` has the
sentences for calls that only the one-process engine, or another library, has.

`boundaries.py` knows what travels between stages, and takes it apart into tensors; `far_skips.py` sends what PyTorch's
engine does not, skips to a stage further on. `agreement.py` makes sure, at each step, that all ranks have built the
same network and are about to do the same.

`ranks.py` is how ranks meet and compare what they are about to do, `watch.py` how they hear of one that is gone and end
together; `messages.py` posts messages and awaits them. `shared_clock.py` and `link_speed.py` measure their clocks and
the links between them. `saving.py` saves a training under the names of the whole network, `optimizer_settings.py` the
part of its optimizer that is not tensors, `rank_state.py` what each rank has for itself; `checkpoint_folder.py` tells
which saved steps are whole. `python -m gpipe_edu train` under torchrun is `cli/train_ranks.py`.
"""

from gpipe_edu.base.needs_pytorch import pytorch_is_there

pytorch_is_there(__name__)

from .engine import lower  # noqa: E402
from .layer_building import build_layers  # noqa: E402
from .pipeline import Pipeline  # noqa: E402
from .ranks import Ranks, RanksError  # noqa: E402

__all__ = ["Pipeline", "Ranks", "RanksError", "build_layers", "lower"]
