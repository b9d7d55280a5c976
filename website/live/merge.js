// Two copies of the learner's file as one: pages and the lab may be open in several tabs, and each has a Python with a copy.
//
// The file holds sections, and a section entries: for the puzzle, the levels. Entry by entry, what one tab has changed
// since the two were equal counts; the rest stays. Where both have changed a solved level, the better one stays.

const SOLVED = "puzzle";

/** mine, theirs: the file as text; before: as it was when the two were the same. A file that is not there is "". */
export function merge(mine, theirs, before) {
  const [here, there, then] = [sections(mine), sections(theirs), sections(before) ?? {}];
  if (!here || !there) return mine; // a browser that keeps nothing, or a file that cannot be read
  const found = {};
  for (const name of union(there, here)) {
    const parts = [here, there, then].map((all) => all[name]);
    const value = parts.every(isSection) ? mergedSection(name, ...parts) : newer(...parts);
    if (value !== undefined) found[name] = value;
  }
  return `${JSON.stringify(found, null, 2)}\n`;
}

function mergedSection(section, here = {}, there = {}, then = {}) {
  const found = {};
  for (const name of union(there, here)) {
    const value = newer(here[name], there[name], then[name], section === SOLVED ? better : undefined);
    if (value !== undefined) found[name] = value;
  }
  return found;
}

/** Of two that may have changed, the one that has; choose: decides where both have. */
function newer(here, there, then, choose = (one) => one) {
  if (same(here, then)) return there;
  if (same(there, then)) return here;
  return here === undefined || there === undefined ? (here ?? there) : choose(here, there);
}

/** Less time is better; for equal times, fewer hints. */
function better(one, two) {
  return (one.makespan - two.makespan || one.hints - two.hints) <= 0 ? one : two;
}

/** All names of both; those of the second come last, as the level that was played last is the one to go on with. */
function union(first, second) {
  return [...Object.keys(first).filter((name) => !Object.hasOwn(second, name)), ...Object.keys(second)];
}

function same(one, two) {
  return JSON.stringify(one) === JSON.stringify(two);
}

const isSection = (value) => value === undefined || (typeof value === "object" && value !== null && !Array.isArray(value));

/** The sections in a text; null where it holds none. */
function sections(text) {
  try {
    const found = JSON.parse(text);
    return isSection(found) ? found : null;
  } catch {
    return null;
  }
}
