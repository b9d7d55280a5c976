"""Which words of ours are gone from the systems' own sources: `python -m tests.sizing.other_words FOLDER`.

FOLDER has megatron-core, torchtitan, deepspeed, nanotron and transformers unpacked. Ends with 1 where a word is gone.
"""

import re
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

from gpipe_edu.sizing.systems import full_name, systems

PACKAGES = {"megatron": "megatron-core"}

OLDER = {
    *("parallelism.num_pp_microbatches", "training.num_tokens_per_microbatch_per_dp_rank"),
    *("training.num_tokens_per_train_step", "training.max_context_length"),
    *("training.batch_size", "training.tensor_parallel_degree", "experimental.pipeline_parallel_degree"),
    *("experimental.pipeline_parallel_microbatches", "activation_checkpoint.mode"),
    *("parallelism.context_parallel_size", "parallelism.recompute_layer", "model.model_config.moe_config.num_experts"),
    "--pad-vocab-size-to",
}
"""Words of torchtitan's and nanotron's other releases, or of their main branches, which are read as well; and one that
BigScience's Megatron-DeepSpeed adds to Megatron-LM's, as the scripts of BLOOM have it."""


def source(folder: Path) -> str:
    return "\n".join(file.read_text(encoding="utf-8", errors="replace") for file in sorted(folder.rglob("*.py")))


def gone(system: str, text: str) -> list[str]:
    """The last part of each word: options of a parser that is made of fields are spelt with either line."""
    known = set(re.findall(r"\w+", text))
    there = {**systems()[system]["words"], **systems()[system]["refused"]}
    last = {word: re.split(r"[.:]", word.removeprefix("--").replace("-", "_"))[-1] for word in there}
    return [
        word for word in there if last[word] not in known and word.removeprefix("--") not in text and word not in OLDER
    ]


def main(folder: str) -> int:
    wrong = 0
    for system in systems():
        lost = gone(system, source(Path(folder, PACKAGES.get(system, system))))
        wrong += len(lost)
        print(f"{full_name(system)}: {', '.join(lost) or 'every word'} {'gone' if lost else 'is there'}")
    types = tomllib.loads(files("gpipe_edu.sizing").joinpath("dense_models.toml").read_text(encoding="utf-8"))
    text = source(Path(folder, "transformers", "transformers", "models"))
    kinds = [kind for name, told in types.items() for kind in told.get("types", [name])]
    lost = [kind for kind in kinds if f'model_type = "{kind}"' not in text]
    print(f"transformers: {', '.join(lost) or 'every type of model'} {'gone' if lost else 'is there'}")
    return int(wrong + len(lost) > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
