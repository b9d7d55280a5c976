"""Training loops as people write them: every optimizer, clipping, averages of weights, freezing."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_, parameters_to_vector, vector_to_parameters
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn, update_bn

from gpipe_edu.pytorch import GPipe
from tests.pytorch.habits.ways import as_plain, as_plain_calls, batch, data, held, in_pieces, learned, mlp, seeded

pytestmark = pytest.mark.slow

OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "sgd_foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
    "sgd_fused": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "sgd_maximize": lambda p: torch.optim.SGD(p, lr=0.1, maximize=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01),
    "adam_foreach": lambda p: torch.optim.Adam(p, lr=0.01, foreach=True),
    "adam_fused": lambda p: torch.optim.Adam(p, lr=0.01, fused=True),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adam_tensor_lr": lambda p: torch.optim.Adam(p, lr=torch.tensor(0.01, dtype=torch.float64)),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.01),
    "adadelta": torch.optim.Adadelta,
    "adamax": torch.optim.Adamax,
    "adafactor": torch.optim.Adafactor,
    "asgd": torch.optim.ASGD,
    "nadam": torch.optim.NAdam,
    "radam": torch.optim.RAdam,
    "rmsprop": lambda p: torch.optim.RMSprop(p, centered=True, momentum=0.5),
    "rprop": torch.optim.Rprop,
}


@pytest.mark.parametrize("make", OPTIMIZERS.values(), ids=OPTIMIZERS)
@as_plain
def test_optimizers(way, make):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    optimizer = make(model.parameters())
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        losses.append(way.learn(model, x, y))
        optimizer.step()
    return losses, held(net)


@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
@as_plain
def test_lbfgs_calls_its_closure_as_often_as_it_likes(way, line_search):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4, line_search_fn=line_search)

    def closure():
        optimizer.zero_grad()
        return way.learn(model, x, y)

    return [optimizer.step(closure) for _ in range(2)], held(net)


@as_plain
def test_muon_for_matrices_and_adam_for_the_rest(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    matrices = [weight for weight in model.parameters() if weight.dim() == 2]
    rest = [weight for weight in model.parameters() if weight.dim() != 2]
    for _ in range(2):
        optimizers = torch.optim.Muon(matrices), torch.optim.Adam(rest)
        way.learn(model, x, y)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    # Muon orthogonalizes in bfloat16, which rounds a last digit up or down.
    return {name: weight.detach().float().round(decimals=2) for name, weight in net.named_parameters()}


@as_plain
def test_two_groups_with_their_own_rates_and_one_more_later(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    optimizer = torch.optim.SGD([{"params": model[0].parameters(), "lr": 0.5}, {"params": model[2].weight}], lr=0.1)
    for turn in range(3):
        if turn == 1:
            optimizer.add_param_group({"params": model[4].parameters(), "weight_decay": 0.1})
        model.zero_grad()
        way.learn(model, x, y)
        optimizer.step()
    return held(net)


@pytest.mark.parametrize(
    "make",
    [
        lambda o: torch.optim.lr_scheduler.StepLR(o, 1),
        lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.3, total_steps=5),
        lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
    ],
    ids=["step", "one_cycle", "cosine"],
)
@as_plain
def test_learning_rates_that_change(way, make):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = make(optimizer)
    for _ in range(3):
        optimizer.zero_grad(set_to_none=False)
        way.learn(model, x, y)
        optimizer.step()
        scheduler.step()
    return scheduler.get_last_lr(), held(net)


@as_plain
def test_rate_lowered_on_a_plateau(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0)
    for _ in range(3):
        scheduler.step(way.learn(model, x, y))
    return optimizer.param_groups[0]["lr"], held(net)


CLIPS = {
    "norm": lambda p: clip_grad_norm_(p, 0.01),
    "inf": lambda p: clip_grad_norm_(p, 0.01, norm_type=float("inf")),
    "foreach": lambda p: clip_grad_norm_(p, 0.01, foreach=True, error_if_nonfinite=True),
    "value": lambda p: clip_grad_value_(p, 0.001),
    "get_total_norm": lambda p: nn.utils.get_total_norm([w.grad for w in p]),
}


@pytest.mark.parametrize("clip", CLIPS.values(), ids=CLIPS)
@as_plain
def test_clipping(way, clip):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    way.learn(model, x, y)
    return clip(list(model.parameters())), held(net)


@as_plain
def test_gradients_of_several_batches_add_up(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    return [way.learn(model, x * n, y) for n in (1, 2, 3)], held(net)


@as_plain
def test_gradients_that_are_views_of_one_long_vector(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    flat = torch.zeros(sum(weight.numel() for weight in model.parameters()), dtype=torch.float64)
    sizes = [weight.numel() for weight in model.parameters()]
    for weight, piece in zip(model.parameters(), flat.split(sizes), strict=True):
        weight.grad = piece.view_as(weight)
    way.learn(model, x, y)
    return flat


@as_plain
def test_weights_as_one_vector_and_back(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    vector_to_parameters(parameters_to_vector(model.parameters()) * 0.5, model.parameters())
    return way.learn(model, x, y), held(net)


@as_plain
def test_first_layer_frozen_then_thawed(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[0].requires_grad_(False)
    seen = []
    for turn in range(3):
        if turn == 2:
            model[0].requires_grad_(True)
        optimizer.zero_grad()
        way.learn(model, x, y)
        seen.append(held(net))
        optimizer.step()
    return seen, held(net)


@as_plain
def test_last_stage_frozen(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    model[4].requires_grad_(False)
    return way.learn(model, x, y), held(net)


@as_plain
def test_middle_frozen_and_only_biases_trained(way):
    net = mlp(6, 8, 8, 8, 3)
    model, (x, y) = way.wrap(net, K=4), data()
    for name, weight in model.named_parameters():
        weight.requires_grad_("bias" in name and not name.startswith("2"))
    return way.learn(model, x, y), held(net)


@as_plain_calls
def test_all_frozen_model_passes_a_gradient_to_its_input(way):
    model, (x, y) = way.wrap(mlp()).requires_grad_(False), data()
    x.requires_grad_(True)
    F.mse_loss(model(x), y).backward()
    return x.grad, [weight.grad for weight in model.parameters()]


@as_plain
def test_optimizer_that_knows_names(way):
    net = mlp()
    model = way.wrap(net)
    optimizer = torch.optim.SGD(model.named_parameters(), lr=0.1)
    way.learn(model, *data())
    optimizer.step()
    return optimizer.param_groups[0]["param_names"], held(net)


@as_plain
def test_loss_with_a_net_of_its_own(way):
    net, head = mlp(), mlp(3, 2)
    return way.learn(way.wrap(net), batch(6), batch(2), lambda out, y: F.mse_loss(head(out), y)), held(net), held(head)


@as_plain
def test_optimizer_made_before_the_pipe(way):
    net = mlp()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    model, (x, y) = way.wrap(net), data()
    for _ in range(2):
        optimizer.zero_grad()
        way.learn(model, x, y)
        optimizer.step()
    return held(net)


@as_plain
def test_optimizer_saved_and_loaded_midway(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    first, second = (torch.optim.Adam(model.parameters(), lr=0.1) for _ in range(2))
    way.learn(model, x, y)
    first.step()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    way.learn(model, x, y)
    second.step()
    return held(net)


@as_plain
def test_optimizer_hooks(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda o, *_: clip_grad_value_(model.parameters(), 0.001))
    way.learn(model, x, y)
    optimizer.step()
    return held(net)


@as_plain
def test_sharpness_aware_minimization(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    weights = list(model.parameters())
    way.learn(model, x, y)
    climb = [0.05 * weight.grad.sign() for weight in weights]
    with torch.no_grad():
        torch._foreach_add_(weights, climb)
    model.zero_grad()
    way.learn(model, x, y)
    with torch.no_grad():
        torch._foreach_sub_(weights, climb)
    torch.optim.SGD(weights, lr=0.1).step()
    return held(net)


@as_plain
def test_weights_replaced_through_data(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    way.learn(model, x, y)
    for weight in model.parameters():
        weight.data = weight.data - 0.1 * weight.grad
    model.zero_grad()
    return way.learn(model, x, y), held(net)


@as_plain
def test_weights_copied_in_place(way):
    net, other = mlp(), mlp()
    model, (x, y) = way.wrap(net), data()
    way.learn(model, x, y)
    with torch.no_grad():
        for mine, theirs in zip(model.parameters(), other.parameters(), strict=True):
            mine.copy_(theirs * 2)
    return way.learn(model, x, y), held(net)


@pytest.mark.parametrize("average", [{}, {"multi_avg_fn": get_ema_multi_avg_fn(0.9)}], ids=["swa", "ema"])
@as_plain
def test_averages_of_weights(way, average):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    averaged = AveragedModel(model, **average)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        way.learn(model, x, y)
        optimizer.step()
        averaged.update_parameters(model)
    with torch.no_grad():
        return averaged(x), list(averaged.parameters())


@in_pieces
def test_update_bn_of_an_average(way):
    net = seeded(lambda: nn.Linear(6, 8), lambda: nn.BatchNorm1d(8), lambda: nn.Linear(8, 3))
    model, (x, y) = way.wrap(net), data()
    averaged = AveragedModel(model)
    way.learn(model, x, y)
    averaged.update_parameters(model)
    update_bn([x, x * 2], averaged)
    return [buffer for buffer in averaged.buffers() if buffer.dim()]


@as_plain
def test_teacher_and_student(way):
    teacher, net, x = mlp(), mlp(), batch(6)
    model = way.wrap(net)
    teacher = teacher.eval().requires_grad_(False)
    with torch.no_grad():
        wish = teacher(x) * 2
    return way.learn(model, x, wish, lambda out, y: F.kl_div(out.log_softmax(1), y.softmax(1), reduction="batchmean"))


@as_plain
def test_mean_teacher_is_a_deepcopy(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    teacher = copy.deepcopy(model)
    for _ in range(2):
        way.learn(model, x, y)
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.1)
    with torch.no_grad():
        return teacher(x), model(x)


@as_plain_calls
def test_grad_scaler(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(model(x), y)).backward()
        scaler.unscale_(optimizer)
        clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()
    return scaler.get_scale(), held(net)


@as_plain
def test_grad_scaler_inside_the_loss(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=1024.0)
    way.learn(model, x, y, lambda out, y: scaler.scale(F.mse_loss(out, y)))
    scaler.step(optimizer)
    scaler.update()
    return held(net)


@pytest.mark.filterwarnings("ignore:loss_fn does not separate")
@as_plain
def test_gradient_that_overflows_skips_the_step(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    x[0, 0] = float("inf")
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu", init_scale=2.0)
    way.learn(model, x, y, lambda out, y: scaler.scale((out * out.exp() - y).sum().log()), reduction="sum")
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale(), [weight.detach() for weight in net.parameters()]


@as_plain
def test_nan_is_no_error(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    x[2] = float("nan")
    loss = way.learn(model, x, y)
    return loss.isnan().item(), [weight.grad.isnan() for weight in net.parameters()]


@as_plain
def test_penalty_on_weights_in_front_of_the_step(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    way.learn(model, x, y)
    (0.01 * sum(weight.pow(2).sum() for weight in model.parameters())).backward()
    return held(net)


@as_plain
def test_penalty_on_a_weight_inside_the_loss(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    loss = way.learn(model, x, y, lambda out, y: F.mse_loss(out, y) + 0.1 * net[4].weight.pow(2).sum())
    return loss, held(net)


@as_plain
def test_loss_with_weights_of_its_own(way):
    net = mlp()
    model, (x, y) = way.wrap(net), data()
    scale = nn.Parameter(torch.ones(3, dtype=torch.float64))
    loss = way.learn(model, x, y, lambda out, y: F.mse_loss(out * scale, y))
    return loss, scale.grad, held(net)


@as_plain
def test_batches_of_changing_sizes(way):
    net = mlp()
    model = way.wrap(net)
    losses = []
    for n in (7, 1, 2, 3, 4, 7):
        losses.append(way.learn(model, batch(6)[:n], batch(3)[:n]))
    return losses, held(net)


@as_plain
def test_two_models_trained_by_turns(way):
    nets = mlp(), mlp(6, 4, 3)
    models, (x, y) = [way.wrap(net) for net in nets], data()
    for model in models * 2:
        way.learn(model, x, y)
    return [held(net) for net in nets]


@as_plain_calls
def test_generator_and_discriminator(way):
    makes, tells = mlp(6, 8, 6), mlp(6, 8, 1)
    generator, discriminator, x = way.wrap(makes), way.wrap(tells), batch(6)
    fake = generator(x)
    score = discriminator(fake.detach()).mean() - discriminator(x).mean()
    score.backward()
    first = held(tells)
    discriminator.requires_grad_(False)
    (-discriminator(fake).mean()).backward()
    return first, held(makes), held(tells)


@as_plain_calls
def test_siamese_calls_share_one_model(way):
    net = mlp()
    model = way.wrap(net)
    a, b = model(batch(6)), model(batch(6, seed=3))
    (1 - F.cosine_similarity(a, b)).mean().backward()
    return held(net)


@as_plain_calls
def test_contrast_between_samples_of_a_batch(way):
    net = mlp()
    out = F.normalize(way.wrap(net)(batch(6)), dim=1)
    F.cross_entropy(out @ out.T / 0.1, torch.arange(7)).backward()
    return held(net)


@as_plain_calls
def test_model_fed_with_its_own_output(way):
    net = mlp(6, 8, 6)
    model = way.wrap(net)
    model(model(model(batch(6)))).sum().backward()
    return held(net)


@as_plain_calls
def test_model_between_two_others(way):
    torch.manual_seed(3)
    net, before, after = mlp(), nn.Linear(4, 6).double(), nn.Linear(3, 2).double()
    whole = nn.Sequential(before, way.wrap(net), after)
    whole(batch(4)).pow(2).sum().backward()
    return held(before), held(net), held(after)


def contrastive(outputs, _):
    """Each sample is to be most like itself among all samples of the mini-batch."""
    rows = F.normalize(outputs, dim=1)
    return F.cross_entropy(rows @ rows.flip(1).T / 0.1, torch.arange(len(rows)))


def correlation(outputs, targets):
    a, b = (part - part.mean(0) for part in (outputs, targets))
    return -((a * b).sum(0) / (a.norm(dim=0) * b.norm(dim=0))).mean()


def root_of_mean(outputs, targets):
    return F.mse_loss(outputs, targets).sqrt()


@pytest.mark.parametrize("loss_fn", [contrastive, correlation, root_of_mean])
@as_plain_calls
def test_losses_over_all_samples_stand_behind_the_pipe(way, loss_fn):
    net = mlp()
    return way.learn(way.wrap(net), *data(), loss_fn), held(net)


@pytest.mark.parametrize("loss_fn", [contrastive, correlation, root_of_mean])
def test_in_a_step_they_see_one_micro_batch(loss_fn):
    """As the documentation says, and a warning."""
    net = mlp()
    expected = learned(copy.deepcopy(net), *data(), loss_fn)
    with pytest.warns(UserWarning, match="loss_fn does not separate over samples"):
        found = GPipe(net, 2, 3).step(*data(), loss_fn)
    assert abs(float(found - expected)) > 1e-3
