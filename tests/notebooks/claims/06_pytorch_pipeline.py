"""What lesson 06 says of its numbers."""

# %% first-check
assert pipe.timeline.source == "measured"
assert len(pipe.timeline.spans) == 2 * 2 * 8  # F and B, K stages, M micro-batches

# %% same
assert difference(exact, single) < 1e-10

# %% transparent
assert difference(called, single) < 1e-10
assert list(called.state_dict()) == list(single.state_dict())

# %% cut
assert all(weight.grad is None for weight in front.parameters())
assert all(weight.grad is not None for weight in back.parameters())

# %% carry
assert difference(net, single) < 1e-12

# %% my-step-run
assert difference(net, single) < 1e-12

# %% fail-run
assert "stage 1, micro-batch 5" in where  # sample 700 of 1024, in pieces of 128

# %% own-run
assert difference(pipe, single) < 1e-10

# %% nap-check
assert ge.formulas.makespan(3, 8, F=10, B=20) == 300

# %% real-table
for k in range(3):  # mean times, as many ops: a device is equally busy in 2 and 3
    assert abs(from_run.busy(k) - run.busy(k)) < 1e-6

# %% trace-save
assert again.spans == run.spans  # not a digit is lost
assert again.source == "measured"

# %% stream
assert launched < 0.2 <= finished

# %% gpu-same
assert difference(pipe, single) < 1e-10

# %% gpu-run
assert sum(held[0]) > sum(held[1])

# %% witness-run
assert threads_of(one_backward)["B@0"] == threads_of(one_backward)["B@1"] == current_thread().name
assert threads_of(my_step)["B@0"] != threads_of(my_step)["B@1"]

# %% serial-run
assert own > 0.26  # at least (M + K - 1)(F + B) = 9 x 30 ms
assert one > 0.40  # at least 9 x 10 ms for the forwards, then 16 x 20 ms

# %% share
assert asked == [3, 3, 3, 3]

# %% optional-check
assert (8 + 3) * 10 + 4 * 8 * 20 == 750
assert ge.simulate(ge.gpipe(4, 8), ge.Costs(F=10, B=20)).makespan == 330
