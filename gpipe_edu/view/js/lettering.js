// How wide text is and how times are written: the twins of lettering.py, `ticks` and `TimeUnit.show` in measures.py.
// A golden file that both sides' tests read keeps them alike.

const NARROWEST = 13;
const SMALLEST = 9;
const LARGEST = 14;
const AVERAGE = 0.55;
const WIDTHS = { W: 0.99, F: 0.58, I: 0.4 };

/** Pixels that a line of running text takes at most, roughly. */
export function textWidth(text, font) {
  return text.length * AVERAGE * font;
}

/** The size at which `label` fits a box `width` pixels wide; 0 if there is none. */
export function labelFont(label, width) {
  const em = ems(label);
  const font = Math.min(LARGEST, (width - 1) / em, Math.max(SMALLEST, (width - 6) / em));
  return width >= NARROWEST && font >= SMALLEST ? font : 0;
}

/** The size at which a number alone fits a box; 0 if there is none. */
export function numberFont(number, width) {
  const em = ems(number);
  const font = Math.min(LARGEST, (width - 1) / em, Math.max(SMALLEST, (width - 2) / em));
  return font >= SMALLEST ? font : 0;
}

/** The width of a label, in its own font's size. */
function ems(label) {
  let em = 0;
  for (const letter of label) em += WIDTHS[letter] ?? (/[A-Za-z]/.test(letter) ? 0.69 : 0.64);
  return em;
}

/** Round times 0, step, 2 step, ... up to `longest`, at most `most` + 1 of them. */
export function ticks(longest, most) {
  const step = tickStep(longest, most);
  if (!step) return [0];
  return Array.from({ length: Math.floor(longest / step + 1e-9) + 1 }, (_, index) => step * index);
}

/** The distance between ticks: 1, 2 or 5 times a power of ten; 0 where there is no time. */
export function tickStep(longest, most) {
  if (!(longest > 0)) return 0;
  const power = 10 ** Math.floor(Math.log10(longest / most));
  return [1, 2, 5, 10, 20].map((factor) => factor * power).find((step) => longest / step <= most);
}

/** `value` with so many significant digits and no needless zeros, as Python's format "g" writes it. */
export function significant(value, digits) {
  const tiny = value !== 0 && Math.abs(value) < 1e-4;
  const [mantissa, exponent] = (tiny ? value.toExponential(digits - 1) : value.toPrecision(digits)).split("e");
  const short = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
  if (exponent === undefined) return short;
  return `${short}e${exponent[0]}${exponent.slice(1).padStart(2, "0")}`;
}

/** A time in words. shown: [scale, unit] of a spec; three digits of what was measured, six of what was planned. */
export function showTime(time, shown) {
  const [scale, unit] = shown;
  const number = time * scale;
  const digits = Math.max(unit ? 3 : 6, String(Math.trunc(number)).length);
  return `${significant(number, digits)} ${unit}`.trim();
}

/** What a device holds, in words: whole micro-batches as they are, parts of them to three digits. */
export function amount(held) {
  return significant(held, Math.max(3, String(Math.trunc(held)).length));
}

/** A coordinate to a hundredth of a pixel. */
export function px(number) {
  return String(Math.round(number * 100) / 100);
}

/** `text` for markup. */
export function escape(text) {
  return String(text).replace(/[&<>"]/g, (mark) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[mark]);
}
