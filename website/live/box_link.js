// The state of the box as the end of an address, "#s=F0%20B0&F=2": a link to it shows the same.
//
// A state is {rows, costs: {name: text}, kept: null or {rows, costs}}. Costs still at their first values are left out; those
// of the kept one have "kept." before their name. The oldest links hold rows alone, and still lead where they did.

const ROWS = "s";
const KEPT = "kept";

/** Whether the end of an address is meant for the box: other pages and headings have theirs. */
export const isMine = (hash) => hash.startsWith(`#${ROWS}=`);

/** first: the costs that are there first. */
export function writeLink({ rows, costs, kept }, first) {
  const parts = [[ROWS, rows], ...differing(costs, first)];
  if (kept) parts.push([KEPT, kept.rows], ...differing(kept.costs, first).map(([name, text]) => [`${KEPT}.${name}`, text]));
  return `#${parts.map(([name, text]) => `${name}=${encodeURIComponent(text)}`).join("&")}`;
}

/** The state that a link holds. Throws an Error for a link that was cut off or changed on its way. */
export function readLink(hash, first) {
  const state = { rows: "", costs: { ...first }, kept: null };
  const seen = new Set();
  for (const part of hash.slice(1).split("&")) {
    const [, name, text] = part.match(/^([^=]*)=(.*)$/s) ?? [];
    if (name === undefined || seen.has(name)) throw new Error(`“${part}” is no part of it`);
    seen.add(name);
    take(state, name, decodeURIComponent(text), first);
  }
  return state;
}

function take(state, name, text, first) {
  const [where, cost] = name.startsWith(`${KEPT}.`) ? [state.kept, name.slice(KEPT.length + 1)] : [state, name];
  if (name === ROWS) state.rows = text;
  else if (name === KEPT) state.kept = { rows: text, costs: { ...first } };
  else if (where && Object.hasOwn(first, cost)) where.costs[cost] = text;
  else throw new Error(`“${name}” is no part of it`);
}

function differing(costs, first) {
  return Object.entries(costs).filter(([name, text]) => text !== first[name]);
}
