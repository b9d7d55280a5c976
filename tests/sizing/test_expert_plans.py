"""Plans of mixtures of experts: two data-parallel groups, routed tokens, messages with experts and what hides them."""

import itertools
import json
import math
import random
import re

import pytest

import gpipe_edu as ge
from gpipe_edu.cli import main
from gpipe_edu.sizing import STATES, Job, Machine, Plan, Planner, SearchSpace, costs, mlp, presets
from gpipe_edu.sizing.flags import DEEPSPEED, MEGATRON, TORCHTITAN, flags, lacking, where
from gpipe_edu.sizing.hugging_face import of_config
from gpipe_edu.sizing.planner import OF_MIXTURES
from tests.each import each

SMALL = {
    **{"model_type": "qwen2_moe", "hidden_size": 64, "intermediate_size": 96, "moe_intermediate_size": 32},
    **{"num_hidden_layers": 6, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 500},
    **{
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "shared_expert_intermediate_size": 48,
        "max_position_embeddings": 32,
    },
}
MODEL = of_config(SMALL).model
DENSE = of_config({**{key: SMALL[key] for key in list(SMALL)[1:3] + list(SMALL)[4:8]}, "model_type": "qwen2"}).model
HEADED = of_config(
    {
        **{"model_type": "deepseek_v3", "hidden_size": 64, "intermediate_size": 640, "moe_intermediate_size": 32},
        **{"num_hidden_layers": 7, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 900},
        **{"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "first_k_dense_replace": 3},
        **{"kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8, "v_head_dim": 8, "n_group": 1},
        **{"num_nextn_predict_layers": 1, "max_position_embeddings": 32},
    }
).model
"""With a further head."""

PLAIN = of_config(SMALL | {"model_type": "qwen3_moe"}).model
"""Without experts that every token goes to."""

MACHINE = Machine(16, 1e9, 1e12, link=1e9, network=1e8, node=8, bandwidth=1e11, latency=1e-6)
JOB = Job(MODEL, 64, MACHINE, STATES["mixed-adam"], 2)

ONE_EXPERT = 3 * 64 * 32
OF_EXPERTS = 6 * 8 * ONE_EXPERT


@pytest.mark.parametrize(("experts", "expert_tensor"), [(1, 1), (2, 1), (4, 2), (8, 2), (8, 1)])
def test_dense_weights_and_experts_have_groups_of_their_own(experts, expert_tensor):
    """Counted from the shapes: dense weights over D, experts over D x T / (E x ET)."""
    D, tensor = 4, 4
    rest = (MODEL.parameters - OF_EXPERTS) / tensor
    own = OF_EXPERTS / (experts * expert_tensor)
    copies = D * tensor // (experts * expert_tensor)
    for zero in (0, 1):
        plan = Plan(JOB, D, 1, 4, zero=zero, tensor=tensor, experts=experts, expert_tensor=expert_tensor)
        assert plan.expert_ranks == copies
        held = 12 * (rest / D + own / copies) if zero else 12 * (rest + own)
        assert plan.state == (pytest.approx(6 * (rest + own) + held, rel=1e-12),)
        machine, halves = JOB.machine, 2 - zero
        reduce = machine.ring(4 * rest, D, tensor) + machine.ring(4 * own, copies, experts * expert_tensor)
        collect = machine.ring(2 * rest, D, tensor) + machine.ring(2 * own, copies, experts * expert_tensor)
        backward = plan.costs.B[0]
        after = max(0, halves * reduce - costs.OVERLAP * backward) + (collect if zero else 0)
        assert plan.exposed == (pytest.approx(after, rel=1e-12),)
    whole = Plan(JOB, D, 1, 4, zero=3, tensor=tensor, experts=experts, expert_tensor=expert_tensor)
    block = (MODEL.layers[1].parameters - 8 * ONE_EXPERT) / tensor
    two = max(2 * block, 2 * max(layer.parameters for layer in (MODEL.layers[0], MODEL.layers[-1])) / tensor)
    gathered = two * (1 - 1 / D) + 2 * own / 6 * (1 - 1 / copies)
    spread = 18 * (rest / D + own / copies)
    assert whole.state == (pytest.approx(spread + 6 * gathered, rel=1e-12),)


def test_routed_tokens_are_stored_once_for_each_of_their_experts():
    plans = {imbalance: Plan(JOB._replace(imbalance=imbalance), 1, 1, 64, experts=1) for imbalance in (1, 1.5)}
    routed = 6 * 32 * 2 * (64 + 3 * 32)  # numbers of one sample: copies, gate, up and their product
    assert plans[1.5].activations[0] - plans[1].activations[0] == pytest.approx(0.5 * 2 * routed, rel=1e-9)
    kept = Plan(JOB, 1, 1, 64, "selective")
    spared = 2 * 5 * 32 * 2 * 32  # of five blocks of six the product goes; the last one has it back
    assert plans[1].activations[0] - kept.activations[0] == pytest.approx(spared, rel=1e-9)
    assert plans[1].step < kept.step < plans[1.5].step


def test_messages_with_experts_are_what_every_token_sends():
    """Token by token: each is sent to random experts, and what passes links and network is counted for one device."""
    draw, samples, machine = random.Random(3), 20_000, MACHINE._replace(latency=0.0)
    for ranks, apart, once, nodes in (
        (8, 1, False, 0),
        (8, 1, True, 0),
        (16, 1, False, 0),
        (16, 2, True, 0),
        (16, 1, True, 0),
    ):
        node = machine.node // apart
        near = far = 0
        for _ in range(samples):
            goes = [draw.randrange(ranks) for _ in range(4)]
            away = [rank for rank in goes if rank // node]
            far += len({rank // node for rank in away}) if once else len(away)
            # Once in a node, a token passes a link to each of its devices there, except the one where it arrives: that
            # one is as far from 0 as here.
            near += sum(rank % node > 0 for rank in {*goes}) if once else sum(0 < rank < node for rank in goes)
        expected = max(near / samples * 100 / machine.link, far / samples * 100 / machine.network)
        assert costs.exchange(100, 4, ranks, apart, nodes, once, machine) == pytest.approx(expected, rel=0.03)
    assert costs.exchange(100, 4, 1, 1, 0, False, machine) == 0
    # Of 8 nodes a token may reach 4; 7/8 of what it sends leaves its own.
    limited = costs.exchange(100, 8, 64, 1, 4, True, machine)
    assert limited == pytest.approx(4 * 7 / 8 * 100 / machine.network)
    assert limited < costs.exchange(100, 8, 64, 1, 0, True, machine) < costs.exchange(100, 8, 64, 1, 0, False, machine)


def test_few_tokens_make_products_of_experts_slow():
    machine = MACHINE
    assert costs.grouped(1e9, 64, machine) == 2 * costs.compute(1e9, machine)  # half a tile of padding each
    assert costs.grouped(1e9, 1e9, machine) == pytest.approx(costs.compute(1e9, machine))
    # More devices share the experts, so each has tokens of more devices for every expert.
    products = [Plan(JOB, 8, 1, 8, experts=experts).parts["products"] for experts in (1, 2, 4, 8)]
    assert products == sorted(products, reverse=True)
    assert products[0] > products[-1]


def test_what_hides_messages_hides_no_more_than_fits():
    slow = JOB._replace(machine=MACHINE._replace(link=1e7))
    fast = JOB._replace(machine=MACHINE._replace(link=1e13, latency=0.0))
    for job, some in ((slow, True), (fast, False)):
        plans = {hide: Plan(job, 8, 1, 8, experts=8, hide=hide) for hide in ("none", "shared", "pairs")}
        exposed = {hide: plan.parts["experts"] for hide, plan in plans.items()}
        assert exposed["none"] > exposed["shared"]
        assert (exposed["shared"] > 0) == some
        if some:
            assert exposed["shared"] > exposed["pairs"]
        else:
            assert exposed["pairs"] == pytest.approx(exposed["none"] / 8), "the first forward and the last backward"
        # A pair has the work of a forward and a backward, so at most that is hidden.
        plain = plans["none"]
        work = plain.parts["products"] + plain.parts["memory"]
        assert exposed["none"] - exposed["pairs"] <= work * (1 + 1e-9)
        for plan in plans.values():
            assert sum(plan.parts.values()) == pytest.approx(plan.step)


@each("schedule, recipe", [("interleaved", ge.combined_one_f_one_b(4, 8, 2)), ("dual_pipe_v", ge.dual_pipe_v(4, 8))])
def test_ops_in_no_pair_wait_for_what_a_pair_would_hide(schedule, recipe):
    """The first forwards and the last backwards have no other to pair with; and a pair's outputs leave together."""
    job = JOB._replace(machine=MACHINE._replace(link=3e9, network=3e9))
    one, two = (
        Plan(job, 4, 4, 8, schedule=schedule, balance=(1,) * 8, experts=4, hide=hide) for hide in ("none", "pairs")
    )
    hidden = [plain - paired for plain, paired in zip(one.costs.F, two.costs.F, strict=True)]
    assert hidden[0] == hidden[-1] == 0 < min(hidden[1:-1]), "the ends have no experts"
    assert two.bound <= two.step < one.step

    paired = {op for pair in recipe.pairs for op in pair}
    seconds, home, second = two.costs.table(8), recipe.device_of_stage, dict(recipe.pairs)
    lone = [op for row in recipe.rows for op in row if op not in paired and op.kind in "FBI"]

    def length(op):
        return seconds[op.kind][op.stage] + (hidden[op.stage] if op in lone else 0)

    # By trying again until nothing changes: each op when it is its turn and what it needs is there.
    needs, leaves, turn, free = recipe.apart().needs, {}, [0] * 4, [0.0] * 4
    links = {}
    while any(at < len(row) for at, row in zip(turn, recipe.rows, strict=True)):
        for device, row in enumerate(recipe.rows):
            while turn[device] < len(row):
                first = row[turn[device]]
                block = [first, second[first]] if first in second else [first]
                wanted = [need for op in block for need in needs(op)]
                if any((need, device) not in leaves for need in wanted):
                    break
                free[device] = max([free[device], *(leaves[need, device] for need in wanted)]) + sum(map(length, block))
                for op in block:
                    leaves[op, device] = free[device]
                    goal = op.stage + (1 if op.kind == "F" else -1)
                    if op.kind != "W" and 0 <= goal < 8 and home[goal] != device:
                        left = max(free[device], links.get((device, home[goal]), 0)) + two.costs.link
                        links[device, home[goal]] = left
                        leaves[op, home[goal]] = left + two.costs.send
                turn[device] += len(block)
    assert two.step == pytest.approx(max(map(sum, zip(free, two.exposed, two.update, strict=True))))
    assert two.timeline.makespan == pytest.approx(max(free))
    messages = sum(8 * 2 * stage.exposed for stage in two._stages.total) / 4
    assert two.parts["experts"] == pytest.approx(messages + sum(hidden[op.stage] for op in lone) / 4)
    assert sum(two.parts.values()) == pytest.approx(two.step)


def test_bounds_hold_for_mixtures():
    ways = SearchSpace()._replace(tensor=(1, 2), context=(1,), experts=(1, 2, 4, 8), hide=("none", "shared", "pairs"))
    plans = Planner(JOB._replace(machine=MACHINE._replace(devices=8)), ways).plans
    for plan in random.Random(1).sample(plans, 60):
        assert plan.floor <= plan.step * (1 + 1e-9), plan
        assert plan.bound <= plan.step * (1 + 1e-9), plan
    assert {plan.experts.ranks for plan in plans} == {1, 2, 4, 8}
    assert {plan.experts.hide for plan in plans} == {"none", "shared", "pairs"}
    assert all(plan.D * plan.group.tensor % plan.experts.ranks == 0 for plan in plans)


def test_the_best_plan_is_that_of_trying_all():
    ways = SearchSpace()._replace(tensor=(1, 2), context=(1,), schedules=("1f1b",), experts=(1, 2, 4))
    guide = Planner(JOB._replace(machine=MACHINE._replace(devices=8)), ways)
    assert guide.best.step <= 1.01 * min(plan.step for plan in guide.plans if plan.fits)
    assert OF_MIXTURES in guide.warnings()
    assert OF_MIXTURES in str(guide).replace("\n", " ")
    assert OF_MIXTURES not in Planner(JOB._replace(model=DENSE)).warnings()


def test_layers_of_unequal_cost_are_cut_by_it():
    """Three dense blocks first, a further head last: no cut has a faster slowest stage."""
    job = JOB._replace(model=HEADED)
    own = Plan(job, 4, 3, 4, experts=4)
    others = (
        Plan(job, 4, 3, 4, experts=4, balance=(a, b, 10 - a - b))
        for a, b in itertools.product(range(1, 9), repeat=2)
        if a + b < 10
    )

    def slowest(plan):
        return max(map(sum, zip(plan.costs.F, plan.costs.B, strict=True)))

    assert slowest(own) <= min(map(slowest, others)) * (1 + 1e-9) + 14 * 1e6 / 1e11
    letters = [flag.text for flag in flags(own)[MEGATRON] if flag.knob == "cut"]
    stages = letters[0].split('"')[1].split("|")
    lengths = [sum(int(found or 1) for found in re.findall(r"[EtmL](?:\*(\d+))?", stage)) for stage in stages]
    assert tuple(lengths) == own.balance
    assert stages[-1].endswith("mL")


def test_what_can_not_be_is_refused():
    for job, knobs, says in (
        (JOB, {"experts": 3}, "3 does not divide the 4 devices"),
        (JOB, {"experts": 4, "expert_tensor": 2}, "8 does not divide the 4 devices"),
        (JOB._replace(model=DENSE), {"experts": 2}, "has no routed experts"),
        (JOB, {"experts": 4, "hide": "all"}, "hide is 'all'; it must be one of none, shared, pairs"),
        (JOB, {"experts": 4, "hide": "pairs", "K": 2}, "use interleaved"),
        (JOB, {"experts": 4, "hide": "pairs", "recompute": "full"}, "without recompute of layers"),
        (JOB, {"tensor": 2, "sequence": False}, "need the sequence cut"),
        (JOB._replace(machine=MACHINE._replace(devices=64), batch=64), {"D": 16, "experts": 16}, "the 8 experts"),
        (JOB._replace(model=PLAIN), {"experts": 4, "hide": "shared"}, "has no experts that every token goes to"),
        (JOB._replace(model=DENSE, imbalance=2), {}, "imbalance is 2, but qwen2 of 6 blocks has no routed experts"),
        (JOB._replace(imbalance=0.5), {}, "imbalance is 0.5; it must be at least 1"),
    ):
        with pytest.raises(ValueError, match=re.escape(says)):
            Plan(job, **{"D": 4, "K": 1, "M": 4} | knobs)


@pytest.mark.parametrize(
    ("model", "devices", "ways", "says"),
    [
        (MODEL, 16, {"experts": (3,)}, "experts is 3, which does not divide the 8 experts of a layer"),
        (MODEL, 4, {"experts": (8,)}, "experts is 8, but of 4 devices with 64 samples no stage has a multiple"),
        (MODEL, 16, {"hide": ("pairs",), "recompute": ("full",)}, "without recompute of layers (--hide, --recompute)"),
        (MODEL, 16, {"hide": ("pairs",), "experts": (1,)}, "hide is pairs, but with experts on 1 device there are no"),
        (PLAIN, 16, {"hide": ("shared",)}, "hide is shared, but qwen3_moe of 6 blocks has no experts that every token"),
        (DENSE, 16, {"experts": (8,)}, "experts is 8, but qwen2 of 6 blocks has no routed experts"),
        (DENSE, 16, {"hide": ("pairs",)}, "hide is pairs, but qwen2 of 6 blocks has no routed experts"),
        (mlp([8] * 9), 4, {"experts": (8,), "tensor": (1, 2)}, "experts is 8, but MLP of 8 layers has no routed"),
        (MODEL, 4, {"tensor": (8,)}, "groups of 8 devices need that many, and there are 4 (--devices)"),
    ],
)
def test_ways_of_experts_that_can_not_be_are_told_apart(model, devices, ways, says):
    job = JOB._replace(model=model, machine=MACHINE._replace(devices=devices))
    with pytest.raises(ValueError, match=re.escape(says)) as caught:
        Planner(job, SearchSpace()._replace(**ways))
    assert "sequence" not in str(caught.value)  # they may stay whole, so that they are short is no reason


def test_few_devices_may_divide_experts_too():
    ways = SearchSpace()._replace(schedules=("1f1b",), recompute=("none",))
    weighed = {
        devices: {
            (plan.D * plan.group.tensor, plan.experts.ranks)
            for plan in Planner(JOB._replace(machine=MACHINE._replace(devices=devices)), ways).plans
        }
        for devices in (4, 16, 32)
    }
    assert {experts for _, experts in weighed[4]} == {1, 2, 4}
    assert {experts for _, experts in weighed[16]} == {1, 2, 4, 8}
    # Of many devices, on fewer than 8 only where a stage has no more.
    assert {experts for shared, experts in weighed[32] if shared >= 8} == {1, 8}
    assert {experts for shared, experts in weighed[32] if shared == 4} == {1, 2, 4}
    only = Planner(JOB._replace(machine=MACHINE._replace(devices=32)), ways._replace(experts=(4,)))
    assert {plan.experts.ranks for plan in only.plans} == {4}


def test_flags_have_the_plan_s_experts():
    plan = Plan(JOB, 4, 2, 4, "selective", zero=1, experts=4, hide="shared")
    text = {system: " ".join(flag.text for flag in found) for system, found in flags(plan).items()}
    for words in (
        *("--expert-model-parallel-size 4", "--expert-tensor-parallel-size 1", "--moe-shared-expert-overlap"),
        *("--moe-token-dispatcher-type alltoall", "--recompute-modules moe_act"),
    ):
        assert words in text[MEGATRON]
    assert not lacking(plan)[MEGATRON]
    assert "--parallelism.expert_parallel_degree 4" in text[TORCHTITAN]
    assert "MoE(ep_size=4)" in text[DEEPSPEED]
    assert lacking(plan)[TORCHTITAN] == ["a known flag that hides exchanges", "recompute selective"]
    assert "experts spread over copies" in lacking(Plan(JOB, 4, 1, 4, experts=4))[TORCHTITAN]
    plain = flags(Plan(JOB, 4, 1, 4))[TORCHTITAN]
    assert "experts" not in [flag.knob for flag in plain]
    assert not [flag for flag in flags(Plan(JOB._replace(model=DENSE), 4, 1, 4))[MEGATRON] if "expert" in flag.text]


def test_a_model_that_torchtitan_does_not_have_is_said_to_be_none_of_its_own():
    """_supported_models of torchtitan 0.3 has llama3, qwen3, deepseek_v3, kimi_k2_7 and gpt_oss."""
    for name, there in (("qwen3-30b-a3b", True), ("deepseek-v2-lite", True), ("glm-4.5-air", False), ("dbrx", False)):
        job = presets.job(presets.model(name), 64, "h100", 8)
        plan = Plan(job, 8, 1, 2, zero=2)
        found = {system: {flag.knob: flag.text for flag in knobs} for system, knobs in flags(plan).items()}
        assert ("model" not in found[TORCHTITAN]) == there
        said = f"(which has no {job.model.kind} among its own models)"
        assert (said in where(plan)) == (not there and not lacking(plan)[TORCHTITAN])
        if not there:
            assert found[TORCHTITAN]["model"].startswith(f"{job.model.kind} is none of its own; its experiment")
    unknown = Plan(JOB._replace(model=mlp([8, 8, 8])), 1, 1, 1)
    assert "model" not in [flag.knob for flag in flags(unknown)[TORCHTITAN]]


def test_a_further_head_is_no_block_and_runs_where_it_is_known_to():
    """torchtitan 0.3 raises NotImplementedError for such heads beside a pipeline, and where sequences are cut."""
    job = JOB._replace(model=HEADED)
    for K, V, context in ((1, 1, 1), (2, 4, 1), (1, 1, 2), (3, 3, 1), (2, 4, 2)):
        plan = Plan(job, 2, K, 6, schedule="interleaved", V=V, context=context, zero=2 if K == 1 else 0)
        lacks = " and ".join(lacking(plan)[TORCHTITAN])
        assert (f"a further head beside {'a pipeline' if K > 1 else 'cut sequences'}" in lacks) == (K * context > 1)
        assert ("cut sequences" in lacks) == (context > 1)
        found = {system: {flag.knob: flag.text for flag in knobs} for system, knobs in flags(plan).items()}
        assert "num_mtp_layers" in found[TORCHTITAN]["further"]
        assert "layers" not in found[TORCHTITAN].get("V", "")  # a further head is none of its layers
        assert found[DEEPSPEED]["further"] == "in the model's own code"
        assert found[MEGATRON]["further"] == "--mtp-num-layers 1"
    plain = Plan(JOB, 2, 2, 6, schedule="interleaved", V=4)
    assert not lacking(plain)[TORCHTITAN]
    for knobs in flags(plain).values():
        assert "further" not in [flag.knob for flag in knobs]
    assert "layers" in {flag.knob: flag.text for flag in flags(plain)[TORCHTITAN]}["V"]
    guide = Planner(job, SearchSpace(on="torchtitan", context=(1,), tensor=(1,), experts=(1,)))
    assert {plan.K for plan in guide.plans} == {1}


def test_the_command_plans_a_preset_and_says_what_is_active(capsys):
    asked = (
        "plan --model olmoe --machine h100 --devices 8 --batch 64 --schedule 1f1b --json --experts 8 --imbalance 1.2"
    )
    with pytest.raises(SystemExit) as ended:
        main(asked.split())
    assert not ended.value.code
    answer = json.loads(capsys.readouterr().out)
    assert answer["best"]["experts"]["ranks"] == 8
    assert OF_MIXTURES in answer["warnings"]
    assert math.isclose(sum(answer["best"]["parts"].values()), answer["best"]["step"])
    with pytest.raises(SystemExit):
        main(asked.replace(" --json", "").split())
    told = " ".join(capsys.readouterr().out.split())
    assert "6,919,161,856 parameters, 1,282,017,280 of them active" in told
    assert "four in five took" not in told
