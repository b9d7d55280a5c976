// Specs to test with: those that Python wrote into golden.json, so nothing here is made up.
import { readFileSync } from "node:fs";

const golden = JSON.parse(readFileSync(new URL("../golden.json", import.meta.url), "utf8"));

export const specs = Object.fromEntries(Object.entries(golden.cases).map(([name, { spec }]) => [name, spec]));

/** Of a schedule that cannot run. */
export const stuck = golden.stuck.spec;

export const NAMES = {
  F: "forward",
  B: "backward",
  R: "recompute",
  C: "checkpointed backward",
  I: "input gradient",
  W: "weight gradient",
};

/** The number of the op with this letter, micro-batch and stage. */
export function opOf(spec, kind, microBatch, stage) {
  return [...spec.kind].findIndex(
    (letter, index) => letter === kind && spec.micro_batch[index] === microBatch && spec.stage[index] === stage,
  );
}
