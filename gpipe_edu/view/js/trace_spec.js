// The spec of a trace that was opened in the page: what spec.py sends, made where there may be no Python.
// A golden file holds the two against each other, so a run looks and reads the same whoever drew it.

import { NOISE, criticalPath, gaps, memoryOf, needsFrom, peakInFlight, recomputeTimes } from "./facts.js";
import { amount, showTime } from "./lettering.js";

const DIGITS = 9;

/** The unit that `longest` is told in: [scale, unit]. */
export function clockOf(unit, longest) {
  if (unit !== "s") return [1, unit];
  return [[1, "s"], [1e3, "ms"], [1e6, "µs"]].find(([scale, name]) => longest * scale >= 1 || name === "µs");
}

/** How long the step of a trace takes. */
export function lengthOf({ spans }) {
  return spans.reduce((end, span) => Math.max(end, span.end), -Infinity) - spans[0].start;
}

/** trace: from trace.js; shown: the unit its times are told in, [scale, unit]. */
export function traceSpec(trace, shown) {
  const begin = trace.spans[0].start;
  const makespan = lengthOf(trace);
  const rows = Array.from({ length: trace.devices }, (_, device) => trace.spans.filter((span) => span.device === device));
  const spans = rows.flat();
  spans.forEach((span, index) => (span.index = index));
  const needs = needsFrom(trace.spans);
  const waited = spans.map((span) => needs(span).map(({ index }) => index));
  const recomputes = recomputeTimes(spans);
  const stages = rows.map((row) => [...new Set(row.map(({ stage }) => stage))].sort((one, two) => one - two));
  const shares = new Map(stages.flatMap((held) => held.map((stage) => [stage, 1 / held.length])));
  const held = (inputs, insides) => rows.map((row) => memoryOf(row, needs, inputs, insides));
  const levels = held(() => 0, (stage) => shares.get(stage));
  const inputs = [...recomputes.keys()].length || spans.some(({ kind }) => kind === "R") ? held(() => 1, () => 0) : null;
  const spec = {
    name: trace.name || "pipeline",
    K: trace.devices,
    M: 1 + most(spans.map(({ micro_batch }) => micro_batch)),
    end: round(makespan),
    unit: trace.unit || "step",
    source: trace.source,
    shown,
    send: trace.send,
    stages,
    first: rows.reduce((first, row) => [...first, first.at(-1) + row.length], [0]),
    kind: spans.map(({ kind }) => kind).join(""),
    stage: spans.map(({ stage }) => stage),
    micro_batch: spans.map(({ micro_batch }) => micro_batch),
    start: spans.map(({ start }) => round(start - begin)),
    stop: spans.map(({ end }) => round(end - begin)),
    recompute: recomputes.size ? spans.map(({ index }) => round(recomputes.get(index) ?? 0)) : [],
    needs: [0, 1].map((place) => waited.map((row) => row[place] ?? -1)),
    idle: bubblesOf(rows, spans, waited, begin, begin + makespan, trace.send),
    flush: spans.some(({ kind }) => "BCW".includes(kind)) ? [round(makespan)] : [],
    memory: levels.map((steps) => [steps.map(([time]) => round(time - begin)), steps.map(([, level]) => round(level))]),
    cap: null,
    peaks: rows.map(peakInFlight),
    critical: criticalPath(trace.spans, rows, needs, trace.send).map(({ index }) => index),
  };
  spec.heading = [spec.name, `${trace.source}, time in ${shown[1] || "cost units"}`, sizes(spec)];
  spec.figures = figures(spec, rows, makespan, recomputes, levels, inputs);
  return spec;
}

function most(values) {
  return values.reduce((one, two) => Math.max(one, two), 0);
}

function round(time) {
  return Number(time.toFixed(DIGITS));
}

function bubblesOf(rows, spans, waited, begin, end, send) {
  const idle = { device: [], start: [], stop: [], next: [], cause: [] };
  rows.forEach((row, device) => {
    let here = 0;
    for (const [from, to] of gaps(row, begin, end)) {
      while (here < row.length && row[here].start < to) here++;
      const next = row[here]?.index ?? -1;
      const there = (index) => spans[index].end + (spans[index].device === device ? 0 : send);
      const causes = next < 0 ? [] : waited[next];
      const cause = causes.reduce((best, one) => (best < 0 || there(one) > there(best) ? one : best), -1);
      const found = { device, start: round(from - begin), stop: round(to - begin), next, cause };
      for (const [column, value] of Object.entries(found)) idle[column].push(value);
    }
  });
  return idle;
}

function counted(count, word) {
  return `${amount(count)} ${word}${count === 1 ? "" : word.endsWith("ch") ? "es" : "s"}`;
}

function sizes({ K, M, stage }) {
  const stages = 1 + most(stage);
  const parts = [`${K} device${K === 1 ? "" : "s"}`];
  if (stages !== K) parts.push(`${stages} stage${stages === 1 ? "" : "s"}`);
  return [...parts, `${M} micro-batch${M === 1 ? "" : "es"}`].join(", ");
}

/** A share in percent with one digit. Halves go to the even digit, as Python rounds: 6.25 is 6.2. */
export function percent(share) {
  const value = share * 100;
  return `${((value * 4) % 4 === 1 ? value - 0.01 : value).toFixed(1)}%`;
}

function figures(spec, rows, makespan, recomputes, levels, inputs) {
  const total = spec.K * makespan;
  const busy = rows.map((row) => row.reduce((sum, { start, end }) => sum + end - start, 0));
  const idle = busy.reduce((sum, time) => sum + makespan - time, 0);
  const worked = rows.flat().reduce((sum, { kind, start, end }) => sum + (kind === "R" ? 0 : end - start), 0);
  const again = [...recomputes.values()].reduce((sum, time) => sum + time, 0);
  const [bubble, useful] = total ? [idle / total, (worked - again) / total] : [0, 0];
  const pieces = [
    `makespan ${showTime(makespan, spec.shown)}`,
    `bubble ${percent(bubble)} (idle / total)`,
    `useful work ${percent(useful)}`,
  ];
  if (1 - bubble - useful > NOISE && makespan) pieces.push(`recompute ${percent(1 - bubble - useful)}`);
  const peak = (steps) => most(steps.flatMap((device) => device.map(([, level]) => level)));
  const kept = inputs ? ` + ${counted(peak(inputs), "stage input")}` : "";
  return [...pieces, `peak memory ${counted(round(peak(levels)), "micro-batch")}${ofDevice(spec)}${kept}`];
}

/** What a micro-batch means where a device has several stages. */
function ofDevice({ stages }) {
  return stages.some((held) => held.length > 1) ? " (all stages of a device)" : "";
}
