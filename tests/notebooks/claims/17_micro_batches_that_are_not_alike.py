"""What lesson 17 says of its numbers."""

# %% pck-work
assert costs == [22, 8, 12, 22, 10, 14, 22, 13]
assert {sum(texts) for texts in packs} == {16}
assert work_per_token([6, 6, 2, 2]) == 11
h = 1024  # wide, so that the law of lesson 09 is 6 to s
assert (24 * h) / (4 * 1024) == 6
F = [1024 * s * h * (24 * h + 4 * 1024 * s) for s in (2, 16)]
assert 8 * F[0] * 2.75 == F[1]
assert 22 * 2 * work_per_token([2]) == 16 * work_per_token([16])  # as much work with 44 k tokens

# %% pck-planned
assert planned(range(8)).makespan == 686

# %% pck-gpipe
assert {planned(order, ge.gpipe).makespan for order in orders} == {567}
assert 3 * (sum(costs) + 3 * max(costs)) == 567

# %% pck-random
assert (min(steps), max(steps), round(sum(steps) / 200)) == (498, 726, 620)
assert sum(step < 567 for step in steps) == 30
equal = [ge.simulate(recipe(4, 8)).makespan for recipe in (ge.gpipe, ge.one_f_one_b)]
assert equal[0] == equal[1]

# %% pck-rule
assert [planned(order).makespan for order in (up, up[::-1], rule)] == [536, 534, 506]
assert rule == [1, 2, 5, 3, 6, 0, 7, 4]

# %% pck-order-try
swapped = []
for i in range(8):
    for j in range(i):
        row = list(rule)
        row[i], row[j] = row[j], row[i]
        swapped.append((planned(row).makespan, [costs[m] for m in row]))
better = sorted(one for one in swapped if one[0] < 506)
assert len(swapped) == 28
assert [one[0] for one in better] == [490, 504]
assert better[0][1] == [8, 12, 22, 22, 22, 14, 13, 10]  # all three one place to the front

# %% pck-best-run
assert best.makespan == best.least == 489
assert round(even.makespan) == 507
assert all(planned(order).makespan > even.makespan or planned(order).makespan == 498 for order in orders)

# %% pck-held
up = sorted(answers)
assert held(up[::2] + up[1::2][::-1]) == 22
assert held(answers) == 14
s, h = 1024, 8192  # short texts in a wide model
assert 4 * s / (24 * h) < 0.03

# %% pck-price
assert dict(zip(room, steps["the best order"], strict=True)) == {
    14: 197, 15: 196, 16: 195, 17: 195, 18: 160, 19: 158, 20: 137, 21: 136, 22: 136,
}  # fmt: skip
assert held([answers[m] for m in within[7].order]) == 21
assert round(100 * (195 / 136 - 1)) == 43
assert round(100 * (160 / 136 - 1)) == 18
tried = [some.sample(answers, 8) for _ in range(400)]
fitting = [ge.simulate(ge.one_f_one_b(K, 8), ge.Costs(micro_batches=row)).makespan for row in tried if held(row) <= 18]
assert len(fitting) > 120  # many
assert 0.8 < sum(step >= 190 for step in fitting) / len(fitting) < 0.9

# %% pck-images
assert with_images(images).makespan == 108
assert ge.balance_by_cost([sum(images) / 6] * 3 + [1] * 12, K) == (3, 4, 4, 4)
assert with_images([1] * 6).makespan == 105
assert held([3 * each for each in images]) == 18
assert [max(sum([4] * (K - k)) for k in (1, 2, 3)), 4 * 3] == [12, 12]  # alike: devices 1 and 0

# %% pck-images-run
assert [with_images(row).makespan for row in rows.values()] == [117, 96, 120]
assert [with_images(row, recipe=ge.gpipe).makespan for row in rows.values()] == [138, 114, 96]
assert ge.gpipe(2, 3).rows[0][3] == ge.Op("B", 2, 0)  # its backwards run in reverse

# %% pck-cut-run
assert found.balance == (5, 4, 3, 3)
assert (found.makespan, with_images(row).makespan) == (105, 111)

# %% pck-tokens
counts = (targets != -100).sum(1)
assert (int(counts.min()), int(counts.max())) == (78, 992)

# %% pck-block
x = torch.randn(1, 16 * unit, H)
block = Block()
q, key, value = block.before(x).chunk(3, 2)
mask = number[2][:, None] == number[2][None, :]
attended = x + block.after(nn.functional.scaled_dot_product_attention(q, key, value, attn_mask=mask))
assert torch.allclose(block((x, number[2:3]))[0], attended + block.more(attended), atol=1e-5)

# %% pck-same
assert difference(pipe) < 1e-10

# %% pck-mean
assert difference(net) > 0.1

# %% pck-measure
assert sorted(two.order) == list(range(8))
assert ge.simulate(schedule, ge.Costs(micro_batches=costs)).makespan > 1.1 * two.makespan
