// A saved trace, read in the page: the twin of timeline/trace.py. Refusals are the same sentences, word for word.
// A golden file that both sides' tests read keeps the two alike.

const PROGRAM = "gpipe_edu";
const FORMAT = 1;
const MOST_MEGABYTES = 32;
const LIMITS = { devices: 1024, stage: 4096, micro_batch: 65536 };
const SOURCES = ["planned", "replayed", "measured", "drawn"];
const UNITS = ["", "s"];
const ENDLESS = 1e300;
const HOW = "open what gpipe_edu saved as a Chrome trace";

/** The timeline in a File of the browser: {name, source, unit, send, devices, spans}. Throws an Error with a sentence. */
export async function openTrace(file, names) {
  const size = Math.ceil(file.size / 1e6);
  if (file.size > MOST_MEGABYTES * 1e6) {
    throw new Error(`${file.name} has ${size} MB, and a trace at most ${MOST_MEGABYTES}; ${HOW}`);
  }
  let data;
  try {
    data = await file.arrayBuffer();
  } catch {
    throw new Error(`${file.name} cannot be read; it may be a folder, or it has been moved or changed since`);
  }
  return readTrace(data, file.name, names);
}

/** The timeline in the content of the file `name`. names: what the letters of ops stand for. */
export function readTrace(data, name, names) {
  const content = parsed(data, name);
  const { about, events } = ours(content, name);
  const letters = Object.fromEntries(Object.entries(names).map(([letter, kind]) => [kind, letter]));
  checkHeader(about, name);
  const spans = [];
  const seen = new Set();
  events.forEach((event, number) => {
    if (isObject(event) && event.ph === "X") spans.push(spanOf(event, number, about.devices, letters, name));
  });
  if (!spans.length) damaged(name, "it has no ops");
  for (const { kind, micro_batch, stage } of spans) {
    const op = `${kind}${micro_batch}@${stage}`;
    if (seen.has(op)) damaged(name, `${op} is in it twice`);
    seen.add(op);
  }
  spans.sort((one, two) => one.start - two.start || one.end - two.end || one.device - two.device);
  return { name: about.name, source: about.source, unit: about.unit, send: about.send, devices: about.devices, spans };
}

function parsed(data, name) {
  let text;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(data).trim();
  } catch {
    throw new Error(`${name} is no text; ${HOW}`);
  }
  if (!text) throw new Error(`${name} is empty; ${HOW}`);
  if (!"{[".includes(text[0])) throw new Error(`${name} is no JSON; ${HOW}`);
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${name} begins as JSON but cannot be read to its end: it was cut off or changed`);
  }
}

/** What the file says about itself, and its events. */
function ours(content, name) {
  const events = isObject(content) ? content.traceEvents : content;
  if (!Array.isArray(events)) {
    const keys = Object.keys(content).sort();
    const listed = keys.slice(0, 3).map((key) => `“${key.slice(0, 40)}”`).join(", ") + (keys.length > 3 ? " and more" : "");
    const found = keys.length ? `an object with ${listed}` : "an empty object";
    throw new Error(`${name} is JSON of something else, ${found}; ${HOW}`);
  }
  const about = isObject(content) ? content.otherData : null;
  if (!isObject(about) || about.program !== PROGRAM) {
    const named = new Set(events.filter(isObject).map((event) => event.name));
    const some = [...named].filter((each) => typeof each === "string").slice(0, 2).map((each) => `“${each.slice(0, 40)}”`);
    const such = some.length ? `, such as ${some.join(" and ")},` : "";
    const count = `${events.length} event${events.length === 1 ? "" : "s"}`;
    throw new Error(`${name} is a trace of another program: ${count}${such} and none of gpipe_edu; ${HOW}`);
  }
  if (about.format !== FORMAT) {
    throw new Error(`${name} is a trace in a format that this gpipe_edu cannot read; update it, or save it anew`);
  }
  return { about, events };
}

function checkHeader(about, name) {
  const good = {
    name: [typeof about.name === "string", "a text"],
    source: [SOURCES.includes(about.source), `one of ${SOURCES.join(", ")}`],
    unit: [UNITS.includes(about.unit), "“s” or empty"],
    send: [isTime(about.send) && about.send >= 0, "a time"],
    devices: [isWhole(about.devices, LIMITS.devices + 1) && about.devices > 0, `a number from 1 to ${LIMITS.devices}`],
  };
  for (const [field, [fits, allowed]] of Object.entries(good)) if (!fits) damaged(name, `its “${field}” must be ${allowed}`);
}

function spanOf(event, number, devices, letters, name) {
  const args = isObject(event.args) ? event.args : {};
  const { kind, micro_batch, stage, start, end } = args;
  const good = {
    kind: [typeof kind === "string" && Object.hasOwn(letters, kind), `one of ${Object.keys(letters).join(", ")}`],
    micro_batch: [isWhole(micro_batch, LIMITS.micro_batch), below(LIMITS.micro_batch)],
    stage: [isWhole(stage, LIMITS.stage), below(LIMITS.stage)],
    tid: [isWhole(event.tid, devices), `a device, ${below(devices)}`],
    start: [isTime(start), "a time"],
    end: [isTime(start) && isTime(end) && start <= end, "a time after the start"],
  };
  for (const [field, [fits, allowed]] of Object.entries(good)) {
    if (!fits) damaged(name, `the “${field}” of event ${number} must be ${allowed}`);
  }
  return { device: event.tid, kind: letters[kind], micro_batch, stage, start, end };
}

function below(limit) {
  return `a whole number from 0 to ${limit - 1}`;
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isWhole(value, below) {
  return isTime(value) && Number.isInteger(value) && value >= 0 && value < below;
}

function isTime(value) {
  return typeof value === "number" && value > -ENDLESS && value < ENDLESS;
}

function damaged(name, what) {
  throw new Error(`${name} is damaged: ${what}; save it anew`);
}
