"""How far plans of mixtures of experts are from training runs that others have published.

    python -m benchmarks.published_moe_runs            # shares within 10 and 15 %, and a line per stack
    python -m benchmarks.published_moe_runs --rows     # every run

Every third run, by a hash of its name, is set aside: nothing may be fitted to it. `costs.EXCHANGE` is fitted to the
others. Nothing is timed. docs/published_runs.md has the results.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.published_runs import Run, by_stack, calibrated_by_one, within
from gpipe_edu.sizing import Job, Model, Plan
from gpipe_edu.sizing.hugging_face import of_config
from gpipe_edu.sizing.presets import job, presets

DATA = Path(__file__).with_name("published_moe_runs.toml")


def told() -> list[dict[str, Any]]:
    """Every run with the shape of its model; what a run itself says of that comes first. A run whose pipeline is filled
    and drained several times in a step counts as one of these passes."""
    table = tomllib.loads(DATA.read_text(encoding="utf-8"))
    found = [table["model"][run["model"]] | run for run in table["run"]]
    for run in found:
        passes = run["batch"] // (run["data"] * run["micro_batch"] * run["micro_batches"])
        run |= {"batch": run["batch"] // passes, "step": run["step"] / passes}
        run["stack"] += f", {run['accelerator'].upper()}"
    return found


def why_not(run: dict[str, Any]) -> str:
    """Why there is no plan for a run; "" if there is one."""
    if run["accelerator"] not in presets("machines"):
        return "no preset of the card"
    if isinstance(run["recompute"], list) and {"moe", "mlp"} & {*run["recompute"]}:
        return "recomputes half of a block"
    return "hides messages in a pipeline of one stage a rank" * (_hide(run) and run["pipeline"] > 1 == run["virtual"])


def set_aside(name: str) -> bool:
    """Whether a run is one of every third."""
    return int(hashlib.sha256(name.encode()).hexdigest(), 16) % 3 == 0


@cache
def runs(aside: bool) -> list[Run]:
    """All that can be planned of those that are set aside, or of the others."""
    return [Run(run, plan(run)) for run in told() if not why_not(run) and set_aside(run["name"]) == aside]


def _hide(run: dict[str, Any]) -> bool:
    return run["a2a_overlap"] is True


def model_of(run: dict[str, Any]) -> Model:
    """The model of a run, of the kind that has its parts."""
    config = {
        **{"hidden_size": run["width"], "num_hidden_layers": run["blocks"], "num_attention_heads": run["heads"]},
        **{"vocab_size": run["vocabulary"], "moe_intermediate_size": run["expert_ffn"], "head_dim": run["head_dim"]},
        **{"num_experts": run["experts"], "num_experts_per_tok": run["top_k"], "num_nextn_predict_layers": 0},
        **{"intermediate_size": run["ffn"] or run["expert_ffn"], "max_position_embeddings": run["context"]},
    }
    if run["kv_heads"] == "MLA":
        ranks = run["mla"]
        config |= {"model_type": "deepseek_v3", "q_lora_rank": ranks["q_rank"], "kv_lora_rank": ranks["kv_rank"]}
        config |= {"qk_nope_head_dim": ranks["qk_nope"], "qk_rope_head_dim": ranks["qk_rope"]}
        config |= {"v_head_dim": ranks["v"], "first_k_dense_replace": run["first_dense"]}
        config |= {"n_shared_experts": run["shared_expert_ffn"] // run["expert_ffn"]}
        config |= {"num_nextn_predict_layers": run.get("mtp", 0)}
    elif run.get("expert_every", 1) > 1:
        config |= {"model_type": "llama4_text", "interleave_moe_layer_step": run["expert_every"]}
        config |= {"intermediate_size": run["expert_ffn"], "intermediate_size_mlp": run["ffn"]}
    else:
        config |= {"model_type": "qwen3_moe"}
    if run["kv_heads"] != "MLA":
        config |= {"num_key_value_heads": run["kv_heads"]}
    return of_config(config, context=run["context"]).model


def job_of(run: dict[str, Any]) -> Job:
    """The job of a run, on its card's preset: racks of 72 joined by NVLink where that has them."""
    return job(model_of(run), run["batch"], run["accelerator"], run["devices"])


def plan(run: dict[str, Any]) -> Plan:
    """The plan of a run, cut by its costs. What a source leaves open is taken as Megatron Core's default: nothing is
    recomputed, a token is sent to each expert by itself, experts are shared as other layers are."""
    modules = run["recompute"]
    recompute = "full" if "full" in modules else "selective" if {"moe_act", "act"} & {*modules} else "none"
    shared = run["tensor"] if run["expert_tensor"] == "?" else run["expert_tensor"]
    return Plan(
        *(job_of(run), run["data"], run["pipeline"], run["micro_batches"], recompute),
        schedule="interleaved" if run["virtual"] > 1 else "1f1b",
        V=run["virtual"] if run["virtual"] > 1 else None,
        zero=3 if run["fsdp"] and run["pipeline"] == 1 else 1,
        tensor=run["tensor"],
        context=run["context_parallel"],
        experts=run["expert_parallel"],
        expert_tensor=shared,
        hide="pairs" if _hide(run) else "none",
        once=run["dispatcher"] in ("deepep", "hybridep"),
    )


def report(found: Sequence[Run]) -> str:
    """Shares of these runs, as the page prints them; any other run of the same software and card may be measured."""
    offs = [run.off for run in found]
    median = statistics.median(map(abs, offs))
    measured = within(calibrated_by_one(found, [*runs(False), *runs(True)]))
    shares = f"{within(offs):.0%} | {within(offs, 0.15):.0%} | {median:.1%} | {measured:.0%}"
    return f"{len(found)} | {shares.replace('%', ' %')}"


def main() -> None:
    """Print what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--aside", action="store_true", help="those that are set aside")
    options = parser.parse_args()
    found = runs(options.aside)
    print(f"runs | within 10 % | within 15 % | median | with a factor from one run\n{report(found)}\n")
    for stack, group in by_stack(found).items():
        offs = sorted(run.off for run in group)
        print(f"{stack:34} {len(group):3}: {offs[0]:+.0%} to {offs[-1]:+.0%}, median {statistics.median(offs):+.0%}")
    if options.rows:
        for run in found:
            print(f"{run.told['name']:60} {run.plan.step:8.3g} s for {run.told['step']:8.3g} s {run.off:+6.1%}")


if __name__ == "__main__":
    main()
