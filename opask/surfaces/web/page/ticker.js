// @ts-check
/** Calls those who show times once a second, all at the same moment, while there are any. */

/** @type {Set<() => void>} */
const listeners = new Set();
/** @type {ReturnType<typeof setInterval> | undefined} */
let timer;

/**
 * Call a function every second.
 * @param {() => void} listener
 * @returns {() => void} what ends it
 */
export function everySecond(listener) {
  listeners.add(listener);
  timer ??= setInterval(() => listeners.forEach((call) => call()), 1000);
  return () => {
    listeners.delete(listener);
    if (listeners.size === 0) {
      clearInterval(timer);
      timer = undefined;
    }
  };
}
