// What Python works out of a timeline, worked out in the page: only for a trace that was opened here, where there may be
// no Python. The twin of needs.py, measures.py and memory.py in what a spec says; a golden file keeps them alike.

const SENDS_GRADIENT = "BCI";
const FINISHES = "BCW";
export const NOISE = 1e-9; // gaps shorter than this share of the makespan are rounding, not idle time

/** A cell is a micro-batch on a stage. */
function cell(micro_batch, stage) {
  return `${micro_batch},${stage}`;
}

/** needs(span): the spans it waited for, at most two: its own stage's first. Spans have a field `index`. */
export function needsFrom(spans) {
  const [forward, recompute, gradient] = [new Map(), new Map(), new Map()];
  for (const span of spans) {
    const here = cell(span.micro_batch, span.stage);
    if (span.kind === "F") forward.set(here, span);
    else if (span.kind === "R") recompute.set(here, span);
    else if (SENDS_GRADIENT.includes(span.kind)) gradient.set(here, span);
  }
  const needs = ({ kind, micro_batch, stage }) => {
    const here = cell(micro_batch, stage);
    let own = recompute.get(here) ?? forward.get(here);
    let neighbour = gradient.get(cell(micro_batch, stage + 1));
    if (kind === "F") [own, neighbour] = [null, forward.get(cell(micro_batch, stage - 1))];
    if (kind === "R") [own, neighbour] = [forward.get(here), null];
    if (kind === "W") [own, neighbour] = [gradient.get(here), null];
    return [own, neighbour].filter(Boolean);
  };
  /** Whether this stage keeps only the input of this micro-batch: it has an R or a C. */
  needs.rematerializes = ({ micro_batch, stage }) => {
    const here = cell(micro_batch, stage);
    return recompute.has(here) || gradient.get(here)?.kind === "C";
  };
  return needs;
}

/** The recompute part of every checkpointed backward, by its number: as long as its forward, at most all of it. */
export function recomputeTimes(spans) {
  const forward = new Map();
  for (const span of spans) if (span.kind === "F") forward.set(cell(span.micro_batch, span.stage), span.end - span.start);
  const checkpointed = spans.filter(({ kind }) => kind === "C");
  return new Map(
    checkpointed.map((span) => [span.index, Math.min(forward.get(cell(span.micro_batch, span.stage)) ?? 0, span.end - span.start)]),
  );
}

/** The (start, end) of every time in which a device waits. row: its spans; begin, end: of the step. */
export function gaps(row, begin, end) {
  const edges = [begin, ...row.flatMap((span) => [span.start, span.end]), end];
  const found = [];
  for (let place = 0; place < edges.length; place += 2) {
    if (edges[place + 1] - edges[place] > NOISE * (end - begin)) found.push([edges[place], edges[place + 1]]);
  }
  return found;
}

/** The largest number of micro-batches that a device holds, counted once for every stage of it that holds one. */
export function peakInFlight(row) {
  const starts = new Map();
  for (const span of row) if (span.kind === "F") starts.set(cell(span.micro_batch, span.stage), span.start);
  const changes = [...starts.values()].map((start) => [start, 1, 1]);
  for (const span of row) {
    if (!FINISHES.includes(span.kind)) continue;
    const begun = starts.get(cell(span.micro_batch, span.stage)) ?? span.end;
    changes.push([span.end, begun < span.end ? 0 : 2, -1]);
  }
  let [held, most] = [0, 0];
  for (const [, , change] of changes.sort((one, two) => one[0] - two[0] || one[1] - two[1])) {
    held += change;
    most = Math.max(most, held);
  }
  return most;
}

/** [[time, what is held from then on], ...] of one device. inputs, insides: sizes by stage. */
export function memoryOf(row, needs, inputs, insides) {
  const changes = [];
  for (const span of row) {
    const { kind, stage, start, end } = span;
    if (kind === "F") {
      changes.push([start, inputs(stage) + insides(stage)]);
      if (needs.rematerializes(span)) changes.push([end, -insides(stage)]);
    } else if ("RC".includes(kind)) changes.push([start, insides(stage)]);
    if (FINISHES.includes(kind)) changes.push([end, -inputs(stage) - insides(stage)]);
  }
  const steps = [];
  let held = 0;
  for (const [time, change] of changes.sort((one, two) => one[0] - two[0] || one[1] - two[1])) {
    held += change;
    if (steps.length && steps.at(-1)[0] === time) steps.at(-1)[1] = held;
    else steps.push([time, held]);
  }
  return steps;
}

/** The chain of spans that sets the makespan. spans: in order of start; rows: by device. */
export function criticalPath(spans, rows, needs, send) {
  const before = new Map();
  for (const row of rows) row.forEach((span, place) => place && before.set(span, row[place - 1]));
  const last = (list, key) => list.reduce((best, span) => (key(span) > key(best) ? span : best));
  const path = [last(spans, ({ end }) => end)];
  const passed = new Set();
  for (;;) {
    const here = path.at(-1);
    passed.add(here);
    const causes = [...needs(here), ...(before.has(here) ? [before.get(here)] : [])];
    const earlier = causes.filter((cause) => cause.start <= here.start && !passed.has(cause));
    if (!earlier.length) return path.reverse();
    path.push(last(earlier, (cause) => cause.end + (cause.device === here.device ? 0 : send)));
  }
}
