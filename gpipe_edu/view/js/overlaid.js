// A run over its plan: one chart in which every lane has the plan as a thin ribbon and the run right below it, so that
// late starts and long ops are seen where they are. Only for the same ops on the same devices, or it would say nothing.

/** The specs with the first plan laid over a run of the same ops, or null if there is no such pair. */
export function overlaid(specs) {
  for (const plan of specs) {
    if (plan.source !== "planned") continue;
    const run = specs.find((spec) => spec.source !== "planned" && sameOps(plan, spec));
    if (run) return specs.filter((spec) => spec !== plan).map((spec) => (spec === run ? withPlan(run, plan) : spec));
  }
  return null;
}

function sameOps(one, two) {
  if (one.K !== two.K || one.unit !== two.unit || one.kind.length !== two.kind.length) return false;
  const place = placesIn(two);
  return one.first.every((first, device) => {
    for (let index = first; index < (one.first[device + 1] ?? first); index++) {
      const there = place.get(keyOf(one, index));
      if (there === undefined || there < two.first[device] || there >= two.first[device + 1]) return false;
    }
    return true;
  });
}

function keyOf(spec, index) {
  return `${spec.kind[index]}${spec.micro_batch[index]}@${spec.stage[index]}`;
}

function placesIn(spec) {
  return new Map(spec.stage.map((_, index) => [keyOf(spec, index), index]));
}

/** The run with `plan`, and with `planned`: for each of its ops the number of the same op in the plan. */
function withPlan(run, plan) {
  const place = placesIn(plan);
  const [name, told, ...rest] = run.heading;
  return {
    ...run,
    plan,
    planned: run.stage.map((_, index) => place.get(keyOf(run, index))),
    heading: [name, told.replace(",", " under its plan,"), ...rest],
    figures: [...run.figures, plan.figures[0].replace("makespan", "plan")],
  };
}
