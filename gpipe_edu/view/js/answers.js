// Answers that are here before they are wanted. A key press should be seen at once, but a message to the kernel and
// back takes tens of milliseconds: so the next setting of the control in use is requested in advance.

const MOST_KEPT = 48;
const MOST_OPS = 5000; // above so many ops an answer takes the kernel longer than a person waits between two keys

/** What makes two wishes the same. */
export function wishKey({ kept, serial, ...settings }) {
  return JSON.stringify([settings, kept ?? null]);
}

/** ask(wishes, round): sends them; the reply comes in through `got` with the same round. Without it (a page without kernel) nothing is asked. */
export function createAnswers(ask) {
  const known = new Map();
  let round = 0;
  let asked = null; // the wishes under way: one bundle at a time, or a held key would fill the queue

  function put(wish, answer) {
    const key = wishKey(wish);
    known.delete(key);
    known.set(key, answer);
    if (known.size > MOST_KEPT) known.delete(known.keys().next().value);
  }

  return {
    put,
    get: (wish) => known.get(wishKey(wish)) ?? null,
    /** What was asked for in advance has come: one answer per wish, in their order. */
    got(answers, number) {
      if (number !== round || !asked) return;
      asked.forEach((wish, index) => put(wish, answers[index]));
      asked = null;
    },
    /** Asks for what may be wished next, unless it is known or too large, or something is under way. */
    ahead(wishes, ops) {
      if (!ask || asked || ops > MOST_OPS) return;
      const missing = wishes.filter((wish) => !known.has(wishKey(wish)));
      if (!missing.length) return;
      asked = missing;
      ask(missing, ++round);
    },
    /** What is known no longer holds, since the critical path is now wanted with it. */
    forget() {
      known.clear();
      asked = null;
    },
  };
}
