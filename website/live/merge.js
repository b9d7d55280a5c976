// Two tabs, or a tab and the lab, change the learner's file: what each has changed since it last read it counts.

/** Sections by name, each with values by key. base: what both began with. Where both changed a value, `ours` counts. */
export function mergeProgress(base, ours, theirs) {
  const merged = {};
  for (const section of names(theirs, ours)) {
    if (typeof (ours[section] ?? theirs[section]) !== "object") merged[section] = ours[section] ?? theirs[section];
    else merged[section] = mergeSection(base[section] ?? {}, ours[section] ?? {}, theirs[section] ?? {});
  }
  return merged;
}

function mergeSection(base, ours, theirs) {
  const merged = {};
  for (const key of names(theirs, ours)) {
    const changed = JSON.stringify(ours[key]) !== JSON.stringify(base[key]);
    const value = changed ? ours[key] : theirs[key]; // undefined: deleted there
    if (value !== undefined) merged[key] = value;
  }
  return merged;
}

function names(...parts) {
  return new Set(parts.flatMap(Object.keys));
}
