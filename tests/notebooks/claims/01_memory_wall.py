"""What lesson 01 says of its numbers."""

# %% real-sum
assert 1250 < total < 1290
assert 15 < total / 80 < 16
assert 2.2 < text / 80 < 2.4

# %% bill
parameters = sum(array.size for layer in layers for array in layer.params.values())
assert parameters == 257_290
assert bill["parameters"] == bill["gradients"] == bill["optimizer state"] == 8 * parameters
assert 2 < bill["activations"] / bill["parameters"] < 2.2

# %% fill
assert level[-1] == bill["activations"]

# %% growth
assert 1.9 < factors["depth"][0] < 2.1
assert 1.9 < factors["depth"][1] < 2
assert 3.7 < factors["width"][0] < 4
assert 1.9 < factors["width"][1] < 2
assert factors["mini-batch"] == (1, 2)

# %% paper-plot
totals = [w + a for w, a in zip(weights, activations, strict=True)]
assert all(6 < total < 8 for total in totals)
assert round(activations[0] / totals[0], 2) == 0.86
assert table["Naive-1"].parameters == 82e6

# %% remat
assert peaks[1, None] == peaks[4, None] == peaks[1, "late"] == bill["activations"]
assert peaks[4, "late"] < bill["activations"] / 3

# %% cut-def
assert all(sum(stage_bytes(K)) == bill["parameters"] for K in (1, 2, 4, 8))

# %% cut-activations
assert all(1 / 4 < share < 1 / 3 for share in shares)
assert 1.1 < sum(shares) < 1.25

# %% naive-check
for K in range(1, 9):
    idle = ge.simulate(ge.naive(K, 1)).bubble_fraction
    assert abs(idle - (1 - 1 / K)) < 1e-12
    assert abs(idle - ge.formulas.bubble_fraction(K, 1)) < 1e-12

# %% one-device
assert alone.makespan == ge.simulate(ge.naive(4, 1)).makespan == 12

# %% naive-m
assert (serial.makespan, serial.bubble_fraction) == (12, 0.75)

# %% pipe
speedup = alone.makespan / piped.makespan
assert piped.makespan == 5.25
assert round(speedup, 2) == round(ge.formulas.speedup(4, 4), 2) == 2.29
assert round(piped.bubble_fraction, 3) == 0.429
assert piped.peak_in_flight == (4, 4, 4, 4)

# %% latency
sending = ge.simulate(ge.gpipe(4, 4), ge.Costs(F=1 / 4, B=2 / 4, send=0.1))
assert latency(serial) == latency(piped) == 4 / 4
assert abs(latency(sending) - (latency(piped) + 3 * 0.1)) < 1e-12

# %% traffic-m
assert sum(messages) == sum(whole) == 3 * 256 * 128 * 8
assert len(messages) == 4 * len(whole)
