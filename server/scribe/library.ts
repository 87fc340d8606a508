import { word } from './line';
import { channelOf } from './program';

/** Words in the order of those numbers. */
const SERVER = word('"channel":"server"');
word('"channel":"browser"');
word('"channel":"mobile"');

/** The library met last as JSON, and its channel: one application sends with one library. */
const LONGEST_KEPT: usize = 256;
const LAST = memory.data(256, 16);
let lastLength: usize = 0;
let lastChannel: usize = SERVER;

/** The word for calls whose `context` names no library. */
export function noChannel(): usize {
  return SERVER;
}

/** The word for calls with the `context.library` whose JSON stands between two places. */
export function channelOfLibrary(from: usize, to: usize): usize {
  const length = to - from;
  if (length !== lastLength || memory.compare(LAST, from, length) !== 0) {
    lastChannel = SERVER + channelOf(from, to);
    lastLength = length <= LONGEST_KEPT ? length : 0;
    memory.copy(LAST, from, lastLength);
  }
  return lastChannel;
}
