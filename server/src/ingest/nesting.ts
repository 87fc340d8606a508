/**
 * Levels of objects and arrays in an event, itself included. `JSON.stringify` overflows the stack at some 4,000 levels,
 * depending on what is on the stack already; the limit keeps every later use of an accepted event far from that.
 */
export const DEEPEST = 500;

const QUOTE = 34;
const BACKSLASH = 92;

/** Whether compact JSON is nested deeper than `DEEPEST`. Cheap for nearly every event: it reads only suspicious texts. */
export function isTooDeep(json: string): boolean {
  // A level takes two characters, its bracket and the closing one, and one opening bracket.
  if (json.length <= 2 * DEEPEST) return false;
  return brackets(json) > DEEPEST && depthOf(json) > DEEPEST;
}

/** Opening brackets of both kinds, those inside of strings too: at least the depth. Stops soon after the limit. */
function brackets(json: string): number {
  let count = 0;
  for (const bracket of ['{', '[']) {
    for (let at = json.indexOf(bracket); at >= 0 && count <= DEEPEST; at = json.indexOf(bracket, at + 1))
      count++;
  }
  return count;
}

function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  for (let at = 0; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (unit === QUOTE) at = endOfString(json, at);
    else if (unit === 0x7b || unit === 0x5b) deepest = Math.max(deepest, ++depth);
    else if (unit === 0x7d || unit === 0x5d) depth--;
  }
  return deepest;
}

/** The index of the quote that closes the string opened at `at`. */
function endOfString(json: string, at: number): number {
  for (at++; json.charCodeAt(at) !== QUOTE; at++) {
    if (json.charCodeAt(at) === BACKSLASH) at++;
  }
  return at;
}
