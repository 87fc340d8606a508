import type { JsonLine } from '../model/serialized-event.ts';

/** Keys are spread evenly from 0 to 1. */
type SampleKey = number;

/** Most deliveries per shown event: the number of destinations does not change the sample. */
const DELIVERIES_PER_EVENT = 10;

/** Kind of an activity. Failures have a share of their own, so that many successes cannot hide them. */
export type SampledKind = 'call' | 'delivery' | 'failure';

/**
 * Chooses which activities one client is shown, so many calls a second. An event is chosen by its messageId,
 * so that its deliveries are shown with it, and every event has the same chance. Failures are shown whatever
 * their event, up to the same number.
 *
 * The share of the events follows the rate of the second before; a burst is cut at the number.
 */
export class TailSampler {
  readonly #max: number;
  #share = 1;
  #calls = 0;
  #shown = { call: 0, delivery: 0, failure: 0 };
  #passed = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /**
   * Tells whether an activity might be shown. Changes nothing, so that callers can skip building an activity
   * that will not be shown.
   */
  mayShow(key: SampleKey, kind: SampledKind): boolean {
    const most = kind === 'delivery' ? this.#max * DELIVERIES_PER_EVENT : this.#max;
    return this.#shown[kind] < most && (kind === 'failure' || key < this.#share);
  }

  /** Decides, and counts it as shown or as passed. */
  take(key: SampleKey, kind: SampledKind): boolean {
    if (kind === 'call') this.#calls++;
    const isShown = this.mayShow(key, kind);
    if (isShown) this.#shown[kind]++;
    else if (kind !== 'delivery') this.#passed++;
    return isShown;
  }

  /**
   * Must be called every second. Gives the number of calls and failures that were not shown in the last one.
   */
  nextSecond(): number {
    const passed = this.#passed;
    this.#share = Math.min(1, this.#max / Math.max(1, this.#calls));
    this.#passed = 0;
    this.#calls = 0;
    this.#shown = { call: 0, delivery: 0, failure: 0 };
    return passed;
  }
}

const MESSAGE_ID_START = '{"messageId":"'.length;
const QUOTE = 0x22;
const SPREAD = 2 ** 32;

/** The key of an event, from the bytes of its messageId, with which every line begins. */
export function sampleKeyOfLine({ bytes, from, to }: JsonLine): SampleKey {
  let hash = FNV_OFFSET;
  for (let at = from + MESSAGE_ID_START; at < to && bytes[at] !== QUOTE; at++) hash = mix(hash, bytes[at]!);
  return spread(hash);
}

/** The same key from the messageId, where it has only letters that JSON does not escape. */
export function sampleKeyOf(messageId: string): SampleKey {
  let hash = FNV_OFFSET;
  for (let at = 0; at < messageId.length; at++) hash = mix(hash, messageId.charCodeAt(at) & 0xff);
  return spread(hash);
}

/** FNV-1a. Nothing depends on it being hard to guess. */
const FNV_OFFSET = 0x811c9dc5;

function mix(hash: number, byte: number): number {
  return Math.imul(hash ^ byte, 0x01000193);
}

/** FNV leaves the last letters in the low bits, and ids often differ in these only. */
function spread(hash: number): SampleKey {
  const mixed = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
  return ((mixed ^ (mixed >>> 13)) >>> 0) / SPREAD;
}
