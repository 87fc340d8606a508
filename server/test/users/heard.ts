import { isDeepStrictEqual } from 'node:util';
import { expect } from 'vitest';
import type { Json, JsonObject } from '../../src/model/json.ts';
import type { Time } from '../../src/model/time.ts';

/** An event of a computation at a destination. */
export interface Heard {
  /** Kind and value of the id: an anonymousId may be the userId of somebody else. */
  readonly who: string;
  readonly computation: number;
  readonly value: Json;
  readonly isAudience: boolean;
  readonly sequence: number;
  readonly at: Time;
}

/**
 * Other happenings: users are deleted; a computation that was disabled, or is connected to the destination,
 * begins with every member; the destination may not get what was on its way, and hears of it once more later;
 * somebody asks that it is told every member again, or it cannot be told that any more.
 */
export type Between =
  | { readonly deleted: readonly string[] }
  | { readonly enabled: number }
  | { readonly uncertain: readonly string[] }
  | { readonly asked: number }
  | { readonly disconnected: number }
  | { readonly waived: number | 'all' };

/** An event of a computation, as far as the model reads it. */
interface Notification {
  readonly userId?: string;
  readonly anonymousId?: string;
  readonly traits: JsonObject;
  readonly context: {
    readonly personas: {
      readonly computation_id: string;
      readonly computation_key: string;
      readonly sequence: number;
    };
  };
  readonly integrations: Readonly<Record<string, boolean>>;
  readonly timestamp: string;
}

/**
 * Last events by id and computation. `unsure`: no event since the computation was enabled again. An id that
 * was merged into another while the computation was disabled gets no event any more. `owed`: members without
 * an event since it was asked for. `stale`: no event since the destination was disconnected, so that its
 * earlier knowledge is lost.
 */
export function lastHeard(all: readonly (Heard | Between)[]): {
  readonly last: ReadonlyMap<string, Json>;
  readonly unsure: ReadonlySet<string>;
  readonly owed: ReadonlySet<string>;
} {
  const last = new Map<string, Json>();
  const newest = new Map<string, Pick<Heard, 'sequence' | 'at'>>();
  const unsure = new Set<string>();
  /** Events that may be repeated, because the computation was enabled again. */
  const repeated = new Map<string, number>();
  /** Events that may be repeated whatever they are, because it is unknown whether they arrived. */
  const uncertain = new Map<string, number>();
  /**
   * How often every member may be heard once more, by computation, and how often that has happened, by key.
   */
  const asked = new Map<number, number>();
  const answered = new Map<string, number>();
  const owed = new Set<string>();
  const audiences = new Set<string>();
  for (const one of all) {
    if ('enabled' in one) {
      for (const key of last.keys()) {
        if (!key.endsWith(` ${one.enabled}`)) continue;
        repeated.set(key, (repeated.get(key) ?? 0) + 1);
        unsure.add(key);
        owed.delete(key);
      }
    } else if ('uncertain' in one)
      for (const key of one.uncertain) uncertain.set(key, (uncertain.get(key) ?? 1) + 1);
    else if ('asked' in one) {
      asked.set(one.asked, (asked.get(one.asked) ?? 0) + 1);
      for (const [key, value] of last)
        if (key.endsWith(` ${one.asked}`) && isOfMember({ value, isAudience: audiences.has(key) }))
          owed.add(key);
    } else if ('disconnected' in one) {
      for (const key of owed) if (key.endsWith(` ${one.disconnected}`)) owed.delete(key);
    } else if ('waived' in one) {
      for (const key of owed) if (one.waived === 'all' || key.endsWith(` ${one.waived}`)) owed.delete(key);
    } else if ('deleted' in one) {
      for (const key of last.keys())
        if (one.deleted.some((who) => key.startsWith(`${who} `))) {
          last.delete(key);
          owed.delete(key);
        }
    } else {
      const key = keyOf(one);
      const { value, isAudience, sequence, at } = one;
      const before = newest.get(key) ?? { sequence: 0, at: 0 };
      expect([key, sequence]).toEqual([key, Math.max(sequence, before.sequence + 1)]);
      expect([key, at]).toEqual([key, Math.max(at, before.at)]);
      newest.set(key, one);
      if (isAudience) audiences.add(key);
      owed.delete(key);
      const left = repeated.get(key) ?? 0;
      const isRepeated = isDeepStrictEqual(last.get(key) ?? (isAudience ? false : null), value);
      const doubts = uncertain.get(key) ?? 0;
      if (isRepeated && doubts > 0) {
        uncertain.set(key, doubts - 1);
        continue;
      }
      const answers = answered.get(key) ?? 0;
      if (isRepeated && answers < (asked.get(one.computation) ?? 0) && isOfMember(one))
        answered.set(key, answers + 1);
      else if (isRepeated && left > 0 && isOfMember(one)) repeated.set(key, left - 1);
      else expect([key, value, isRepeated]).toEqual([key, value, false]);
      last.set(key, value);
      unsure.delete(key);
    }
  }
  return { last, unsure, owed };
}

/**
 * Whether a value is told to a destination that hears every member. `false` may be the value of a computed
 * trait.
 */
function isOfMember({ value, isAudience }: Pick<Heard, 'value' | 'isAudience'>): boolean {
  return isAudience ? value === true : value !== null;
}

export function keyOf({ who, computation }: Pick<Heard, 'who' | 'computation'>): string {
  return `${who} ${computation}`;
}

export function readNotification(json: string): Heard & { readonly to: readonly string[] | undefined } {
  const { userId, anonymousId, traits, context, integrations, timestamp } = JSON.parse(json) as Notification;
  const { computation_id, computation_key, sequence } = context.personas;
  const { All: all = true, ...named } = integrations;
  return {
    who: userId === undefined ? anonymousKey(anonymousId!) : `user ${userId}`,
    computation: Number(computation_id.replace(/^[a-z]+_/, '')),
    value: traits[computation_key]!,
    isAudience: computation_id.startsWith('aud_'),
    sequence,
    at: Date.parse(timestamp),
    to: all ? undefined : Object.keys(named),
  };
}

export function anonymousKey(id: string): string {
  return `anonymous ${id}`;
}
