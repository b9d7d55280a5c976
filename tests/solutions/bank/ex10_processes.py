"""Exercise 10, two processes that send activations and gradients."""

import os
import tempfile
import time

import torch
import torch.distributed as dist

from tests.solutions.bank import Bank

BANK = Bank("ex10/processes")


def received(shape, source):
    buffer = torch.empty(shape, dtype=torch.float64)
    dist.recv(buffer, source)
    return buffer


def forward(k, K, stage, m, shapes, pieces, loss_fn):
    """The usual forward: (input, result), the result of the last process being its loss."""
    x = pieces[m] if k == 0 else received(shapes[m], k - 1).requires_grad_()
    out = stage(x)
    if k == K - 1:
        out = loss_fn(out, pieces[m]) * shapes[m][0] / sum(shape[0] for shape in shapes)
    return x, out


@BANK.right
def with_tags_and_futures(k, K, stage, ops, shapes, pieces, loss_fn):
    """Posts all receives of activations in advance, each with the tag of its micro-batch."""
    N, handles, results, loss = sum(n for n, _ in shapes), [], {}, torch.zeros(())
    coming = {}
    if k > 0:
        for m, shape in enumerate(shapes):
            buffer = torch.empty(*shape, dtype=torch.float64)
            coming[m] = buffer, dist.irecv(buffer, src=k - 1, tag=m)
    for op in ops:
        m = op.micro_batch
        if op.kind == "F":
            if k > 0:
                x, work = coming[m]
                work.wait()
                x = x.clone().requires_grad_()
            else:
                x = pieces[m]
            results[m] = x, stage(x)
            if k + 1 < K:
                handles.append(dist.isend(results[m][1].detach().contiguous(), dst=k + 1, tag=m))
        else:
            x, out = results.pop(m)
            if k + 1 == K:
                part = loss_fn(out, pieces[m]) * len(out)
                (part / N).backward()
                loss = loss + part.detach()
            else:
                gradient = torch.zeros_like(out)
                dist.irecv(gradient, src=k + 1, tag=100 + m).wait()
                torch.autograd.backward(out, grad_tensors=gradient)
            if k > 0:
                handles.append(dist.isend(x.grad.clone(), dst=k - 1, tag=100 + m))
    [handle.wait() for handle in handles]
    return loss / N


class Neighbours:
    """Sends to and receives from the processes beside this one."""

    def __init__(self, k, K):
        self.front, self.behind, self.work = (k - 1 if k else None), (k + 1 if k < K - 1 else None), []

    def send(self, tensor, to):
        if to is not None:
            self.work += dist.batch_isend_irecv([dist.P2POp(dist.isend, tensor, to)])

    def receive(self, shape, source):
        buffer = torch.empty(shape, dtype=torch.double)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.irecv, buffer, source)]):
            work.wait()
        return buffer

    def close(self):
        while self.work:
            self.work.pop().wait()


@BANK.right
def by_autograd_grad_and_a_class(k, K, stage, ops, shapes, pieces, loss_fn):
    beside, graphs, losses = Neighbours(k, K), [None] * len(shapes), []
    weights = list(stage.parameters())
    for weight in weights:
        weight.grad = torch.zeros_like(weight)
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m].clone() if beside.front is None else beside.receive(shapes[m], beside.front)
            x.requires_grad_()
            value = x
            for layer in stage:
                value = layer(value)
            beside.send(value.detach(), beside.behind)
            graphs[m] = x, value
        else:
            x, value = graphs[m]
            graphs[m] = gradient = None
            if beside.behind is None:
                value = loss_fn(value, pieces[m]) * (shapes[m][0] / sum(s[0] for s in shapes))
                losses.append(float(value))
            else:
                gradient = beside.receive(value.shape, beside.behind)
            back, *more = torch.autograd.grad(value, [x, *weights], gradient)
            for weight, part in zip(weights, more, strict=True):
                weight.grad += part
            beside.send(back, beside.front)
    beside.close()
    return sum(losses) if losses else None


def run(k, K, stage, ops, shapes, pieces, loss_fn, send_back=None, start_back=None, send=None):
    """A right answer with places to slip: what is sent back, how backward starts, how is sent."""
    handles, held, total = [], {}, 0.0
    send = send or (lambda tensor, to, m: handles.append(dist.isend(tensor, to)))
    for kind, m, _ in ops:
        if kind == "F":
            held[m] = x, out = forward(k, K, stage, m, shapes, pieces, loss_fn)
            if k < K - 1:
                send(out.detach(), k + 1, m)
            else:
                total += out.item()
        else:
            x, out = held[m]
            gradient = received(out.shape, k + 1) if k < K - 1 else None
            (start_back or (lambda out, gradient, m: out.backward(gradient)))(out, gradient, m)
            if k > 0:
                send(send_back(held, m) if send_back else x.grad, k - 1, m)
    for handle in handles:
        handle.wait()
    return total


@BANK.right
def the_same_with_places(k, K, stage, ops, shapes, pieces, loss_fn):
    return run(k, K, stage, ops, shapes, pieces, loss_fn)


@BANK.wrong("sends")
def waits_in_every_send(k, K, stage, ops, shapes, pieces, loss_fn):
    return run(k, K, stage, ops, shapes, pieces, loss_fn, send=lambda tensor, to, m: dist.send(tensor, to))


@BANK.wrong("receives")
def receives_before_it_sends(k, K, stage, ops, shapes, pieces, loss_fn):
    held, total, N = {}, 0.0, sum(shape[0] for shape in shapes)
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m] if k == 0 else received(shapes[m], k - 1).requires_grad_()
            out = stage(x)
            gradient = None
            if k < K - 1:
                gradient = received(out.shape, k + 1)
                dist.send(out.detach(), k + 1)
            else:
                out = loss_fn(out, pieces[m]) * shapes[m][0] / N
                total += out.item()
            held[m] = x, out, gradient
        else:
            x, out, gradient = held[m]
            out.backward(gradient)
            if k > 0:
                dist.send(x.grad, k - 1)
    return total


@BANK.wrong("unwaited")
def throws_handles_away(k, K, stage, ops, shapes, pieces, loss_fn):
    def send(tensor, to, m):
        dist.isend(tensor, to)

    return run(k, K, stage, ops, shapes, pieces, loss_fn, send=send)


@BANK.wrong("tags")
def tags_are_its_own_number(k, K, stage, ops, shapes, pieces, loss_fn):
    return run(k, K, stage, ops, shapes, pieces, loss_fn, send=lambda tensor, to, m: dist.send(tensor, to, tag=k + 1))


@BANK.wrong("no-requires-grad")
def forgets_requires_grad(k, K, stage, ops, shapes, pieces, loss_fn):
    works, held, total, N = [], {}, 0.0, sum(shape[0] for shape in shapes)
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m] if k == 0 else received(shapes[m], k - 1)
            out = stage(x)
            if k < K - 1:
                works.append(dist.isend(out.detach(), k + 1))
            else:
                out = loss_fn(out, pieces[m]) * shapes[m][0] / N
                total += out.item()
            held[m] = x, out
        else:
            x, out = held[m]
            out.backward(received(out.shape, k + 1) if k < K - 1 else None)
            if k > 0:
                works.append(dist.isend(x.grad, k - 1))
    for work in works:
        work.wait()
    return total


@BANK.wrong("no-grad-yet")
def sends_the_gradient_of_the_result(k, K, stage, ops, shapes, pieces, loss_fn):
    return run(k, K, stage, ops, shapes, pieces, loss_fn, send_back=lambda held, m: held[m][1].grad)


@BANK.wrong("no-gradient")
def backward_without_the_gradient(k, K, stage, ops, shapes, pieces, loss_fn):
    return run(k, K, stage, ops, shapes, pieces, loss_fn, start_back=lambda out, gradient, m: out.backward())


@BANK.wrong("other-gradient")
def backward_of_the_sum(k, K, stage, ops, shapes, pieces, loss_fn):
    return run(k, K, stage, ops, shapes, pieces, loss_fn, start_back=lambda out, gradient, m: out.sum().backward())


@BANK.wrong("second-time")
def keeps_only_the_last_graph(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, total, x, out = [], 0.0, None, None
    for kind, m, _ in ops:
        if kind == "F":
            x, out = forward(k, K, stage, m, shapes, pieces, loss_fn)
            if k < K - 1:
                handles.append(dist.isend(out.detach(), k + 1))
            else:
                total += out.item()
        else:
            out.backward(received(out.shape, k + 1) if k < K - 1 else None)
            if k > 0:
                handles.append(dist.isend(x.grad, k - 1))
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("same-graph")
def retains_the_last_graph(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, total, x, out = [], 0.0, None, None
    for kind, m, _ in ops:
        if kind == "F":
            x, out = forward(k, K, stage, m, shapes, pieces, loss_fn)
            if k < K - 1:
                handles.append(dist.isend(out.detach(), k + 1))
            else:
                total += out.item()
        else:
            gradient = received(out.shape, k + 1) if k < K - 1 else None
            out.backward(gradient, retain_graph=True)
            if k > 0:
                handles.append(dist.isend(x.grad.clone(), k - 1))
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("other-micro-batch")
def first_in_first_out(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, queue, total = [], [], 0.0
    for kind, m, _ in ops:
        if kind == "F":
            queue.append(forward(k, K, stage, m, shapes, pieces, loss_fn))
            if k < K - 1:
                handles.append(dist.isend(queue[-1][1].detach(), k + 1))
            else:
                total += queue[-1][1].item()
        else:
            x, out = queue.pop(0)
            out.backward(received(out.shape, k + 1) if k < K - 1 else None)
            if k > 0:
                handles.append(dist.isend(x.grad, k - 1))
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("other-order")
def all_forwards_first(k, K, stage, ops, shapes, pieces, loss_fn):
    M = len(shapes)
    order = [("F", m, k) for m in range(M)] + [("B", m, k) for m in reversed(range(M))]
    return run(k, K, stage, order, shapes, pieces, loss_fn)


@BANK.wrong("first-size")
def one_size_for_all(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, held, total, N = [], {}, 0.0, sum(shape[0] for shape in shapes)
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m] if k == 0 else received(shapes[0], k - 1).requires_grad_()
            out = stage(x)
            if k < K - 1:
                handles.append(dist.isend(out.detach(), k + 1))
            else:
                out = loss_fn(out[: len(pieces[m])], pieces[m]) * shapes[m][0] / N
                total += out.item()
            held[m] = x, out
        else:
            x, out = held[m]
            out.backward(received(out.shape, k + 1) if k < K - 1 else None)
            if k > 0:
                handles.append(dist.isend(x.grad[: shapes[m][0]], k - 1))
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("other-shape")
def hands_the_same_gradient_on(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, held, total = [], {}, 0.0
    for kind, m, _ in ops:
        if kind == "F":
            held[m] = forward(k, K, stage, m, shapes, pieces, loss_fn)
            if k < K - 1:
                handles.append(dist.isend(held[m][1].detach(), k + 1))
            else:
                total += held[m][1].item()
        else:
            gradient = received(held[m][1].shape, k + 1) if k < K - 1 else torch.ones((), dtype=torch.float64)
            held[m][1].backward(gradient)
            if k > 0:
                handles.append(dist.isend(gradient, k - 1))
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("dtype")
def a_buffer_of_float32(k, K, stage, ops, shapes, pieces, loss_fn):
    if k == 0:
        return run(k, K, stage, ops, shapes, pieces, loss_fn)
    for m, shape in enumerate(shapes):
        x = torch.empty(shape)
        dist.recv(x, k - 1)
        out = loss_fn(stage(x.double().requires_grad_()), pieces[m])
    return out


@BANK.wrong("contiguous")
def sends_features_first(k, K, stage, ops, shapes, pieces, loss_fn):
    return run(k, K, stage, ops, shapes, pieces, loss_fn, send_back=lambda held, m: held[m][0].grad.T)


@BANK.wrong("zero")
def sends_zeros_back(k, K, stage, ops, shapes, pieces, loss_fn):
    return run(
        k, K, stage, ops, shapes, pieces, loss_fn, send_back=lambda held, m: torch.zeros_like(held[m][0]).detach()
    )


def weighted(weight):
    def step(k, K, stage, ops, shapes, pieces, loss_fn):
        N, M = sum(shape[0] for shape in shapes), len(shapes)
        batch = [shape[0] for shape in shapes]

        def loss(out, target):
            n = len(target)
            return loss_fn(out, target) * weight(n, N, M) * N / n

        return run(k, K, stage, ops, shapes, pieces, loss if k == K - 1 else loss_fn) if batch else None

    return step


@BANK.wrong("no-weights")
def adds_the_means(k, K, stage, ops, shapes, pieces, loss_fn):
    return weighted(lambda n, N, M: 1)(k, K, stage, ops, shapes, pieces, loss_fn)


@BANK.wrong("mean-of-means")
def divides_by_M(k, K, stage, ops, shapes, pieces, loss_fn):
    return weighted(lambda n, N, M: 1 / M)(k, K, stage, ops, shapes, pieces, loss_fn)


@BANK.wrong("divided-twice")
def scales_again_on_the_way_back(k, K, stage, ops, shapes, pieces, loss_fn):
    share = [shape[0] / sum(shape[0] for shape in shapes) for shape in shapes]
    return run(k, K, stage, ops, shapes, pieces, loss_fn, send_back=lambda held, m: held[m][0].grad * share[m])


@BANK.wrong("only-one")
def empties_in_the_loop(k, K, stage, ops, shapes, pieces, loss_fn):
    def start(out, gradient, m):
        stage.zero_grad()
        out.backward(gradient)

    return run(k, K, stage, ops, shapes, pieces, loss_fn, start_back=start)


@BANK.wrong("loss-everywhere")
def a_loss_on_every_process(k, K, stage, ops, shapes, pieces, loss_fn):
    held, total = {}, 0.0
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m] if k == 0 else received(shapes[m], k - 1).requires_grad_()
            held[m] = x, stage(x)
            if k < K - 1:
                dist.send(held[m][1].detach(), k + 1)
        else:
            x, out = held[m]
            loss = loss_fn(out, pieces[m] if k else out.detach().softmax(1)) * shapes[m][0] / sum(s[0] for s in shapes)
            loss.backward()
            total += loss.item()
            if k > 0:
                dist.send(x.grad, k - 1)
            if k < K - 1:
                received(out.shape, k + 1)
    return total


@BANK.wrong("no-pieces")
def second_is_last(k, K, stage, ops, shapes, pieces, loss_fn):
    return run(k, 2 if k == 1 else K, stage, ops, shapes, pieces, lambda out, target: loss_fn(out, target))


@BANK.wrong("all-reduce")
def averages_gradients(k, K, stage, ops, shapes, pieces, loss_fn):
    total = run(k, K, stage, ops, shapes, pieces, loss_fn)
    for weight in stage.parameters():
        dist.all_reduce(weight.grad)
    return total


@BANK.wrong("no-neighbour")
def first_receives_too(k, K, stage, ops, shapes, pieces, loss_fn):
    for kind, m, _ in ops:
        if kind == "F":
            received(shapes[m], k - 1)


@BANK.wrong("unreceived")
def last_sends_its_result(k, K, stage, ops, shapes, pieces, loss_fn):
    total = run(k, K, stage, ops, shapes, pieces, loss_fn)
    work = dist.isend(torch.tensor([total]), 0) if k == K - 1 else None
    return total if work else None


@BANK.wrong("returned")
def only_activations_are_sent(k, K, stage, ops, shapes, pieces, loss_fn):
    total = 0.0
    for kind, m, _ in ops:
        if kind == "F":
            out = forward(k, K, stage, m, shapes, pieces, loss_fn)[1]
            if k < K - 1:
                dist.send(out.detach(), k + 1)
            else:
                out.backward()
                total += out.item()
        elif k < K - 1:
            out.backward(received(out.shape, k + 1))
    return total


@BANK.wrong("detached")
def keeps_what_it_sends(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, held, total = [], {}, 0.0
    for kind, m, _ in ops:
        if kind == "F":
            x, out = forward(k, K, stage, m, shapes, pieces, loss_fn)
            held[m] = x, out.detach() if k < K - 1 else out
            if k < K - 1:
                handles.append(dist.isend(held[m][1], k + 1))
            else:
                total += out.item()
        else:
            x, out = held[m]
            out.backward(received(out.shape, k + 1) if k < K - 1 else None)
            if k > 0:
                handles.append(dist.isend(x.grad, k - 1))
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("loss-of-the-last")
def returns_the_last_loss(k, K, stage, ops, shapes, pieces, loss_fn):
    last = []

    def loss(out, target):
        last.append(loss_fn(out, target))
        return last[-1]

    run(k, K, stage, ops, shapes, pieces, loss)
    return last[-1].item() if last else None


@BANK.wrong("weights-changed")
def updates_at_the_end(k, K, stage, ops, shapes, pieces, loss_fn):
    total = run(k, K, stage, ops, shapes, pieces, loss_fn)
    with torch.no_grad():
        for weight in stage.parameters():
            weight -= 0.1 * weight.grad
    return total


@BANK.wrong("scaled")
def clips_gradients(k, K, stage, ops, shapes, pieces, loss_fn):
    total = run(k, K, stage, ops, shapes, pieces, loss_fn)
    torch.nn.utils.clip_grad_norm_(stage.parameters(), 0.1)
    return total


@BANK.wrong("rounded")
def sends_float32(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, held, total, N = [], {}, 0.0, sum(shape[0] for shape in shapes)
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m] if k == 0 else torch.empty(shapes[m])
            if k > 0:
                dist.recv(x, k - 1)
                x = x.double().requires_grad_()
            out = stage(x)
            if k < K - 1:
                handles.append(dist.isend(out.detach().float(), k + 1))
            else:
                out = loss_fn(out, pieces[m]) * shapes[m][0] / N
                total += out.item()
            held[m] = x, out
        else:
            x, out = held[m]
            out.backward(received(out.shape, k + 1) if k < K - 1 else None)
            if k > 0:
                handles.append(dist.isend(x.grad, k - 1))
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("one-send-buffer")
def sends_from_one_buffer(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, boxes = [], {}

    def send(tensor, to, m):
        box = boxes.setdefault(to, torch.empty(shapes[0][0], tensor.shape[1], dtype=torch.float64))
        box[: len(tensor)] = tensor
        handles.append(dist.isend(box[: len(tensor)], to))

    total = run(k, K, stage, ops, shapes, pieces, loss_fn, send=send)
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("no-message")
def leaves_gradients_in_files(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, held, total, folder = [], {}, 0.0, tempfile.gettempdir()
    for kind, m, _ in ops:
        if kind == "F":
            held[m] = forward(k, K, stage, m, shapes, pieces, loss_fn)
            if k < K - 1:
                handles.append(dist.isend(held[m][1].detach(), k + 1))
            else:
                total += held[m][1].item()
        else:
            x, out = held[m]
            gradient, file = None, os.path.join(folder, f"{os.getppid()}-gradient-{k + 1}-{m}")
            if k < K - 1:
                while not os.path.exists(file):
                    time.sleep(0.01)
                gradient = torch.load(file)
                os.remove(file)
            out.backward(gradient)
            if k > 0:
                file = os.path.join(folder, f"{os.getppid()}-gradient-{k}-{m}")
                torch.save(x.grad, file + "-part")
                os.rename(file + "-part", file)
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("no-return")
def returns_nothing(k, K, stage, ops, shapes, pieces, loss_fn):
    run(k, K, stage, ops, shapes, pieces, loss_fn)


@BANK.wrong("from-anybody")
def receives_from_whoever_sends(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, held, total, N = [], {}, 0.0, sum(shape[0] for shape in shapes)
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m] if k == 0 else torch.empty(shapes[m], dtype=torch.float64)
            if k > 0:
                dist.recv(x)
            out = stage(x.requires_grad_())
            if k < K - 1:
                handles.append(dist.isend(out.detach(), k + 1))
            else:
                out = loss_fn(out, pieces[m]) * shapes[m][0] / N
                total += out.item()
            held[m] = x, out
        else:
            x, out = held[m]
            gradient = None
            if k < K - 1:
                gradient = torch.empty_like(out)
                dist.recv(gradient)
            out.backward(gradient)
            if k > 0:
                handles.append(dist.isend(x.grad, k - 1))
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("one-buffer")
def reuses_one_buffer(k, K, stage, ops, shapes, pieces, loss_fn):
    handles, held, total, N = [], {}, 0.0, sum(shape[0] for shape in shapes)
    buffer = torch.empty(shapes[0], dtype=torch.float64)  # the first micro-batch is the largest
    for kind, m, _ in ops:
        if kind == "F":
            x = pieces[m] if k == 0 else None
            if k > 0:
                dist.recv(buffer[: shapes[m][0]], k - 1)
                x = buffer[: shapes[m][0]].detach().requires_grad_()
            out = stage(x)
            if k < K - 1:
                handles.append(dist.isend(out.detach(), k + 1))
            else:
                out = loss_fn(out, pieces[m]) * shapes[m][0] / N
                total += out.item()
            held[m] = x, out
        else:
            x, out = held[m]
            out.backward(received(out.shape, k + 1) if k < K - 1 else None)
            if k > 0:
                handles.append(dist.isend(x.grad, k - 1))
    for handle in handles:
        handle.wait()
    return total


@BANK.wrong("forwards")
def does_nothing(k, K, stage, ops, shapes, pieces, loss_fn):
    return 0.0


@BANK.wrong("no-backward")
def returns_after_the_forwards(k, K, stage, ops, shapes, pieces, loss_fn):
    return run(k, K, stage, [op for op in ops if op.kind == "F"], shapes, pieces, loss_fn)


@BANK.wrong("exit")
def exits_when_done(k, K, stage, ops, shapes, pieces, loss_fn):
    run(k, K, stage, ops, shapes, pieces, loss_fn)
    os._exit(0)
