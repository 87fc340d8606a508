import type { Position } from '../../model/event.ts';
import type { JoinRule } from '../../model/regulation.ts';
import type { Time } from '../../model/time.ts';
import type { IdentityKey } from '../../ports/profile-store.ts';
import type { RefusalReason } from '../../ports/users.ts';
import type { ByteReader, ByteWriter } from './byte-codec.ts';

/** Merges of a profile that were refused. */
export interface Refusals {
  readonly count: number;
  /** Samples of the refusals, each with another id or another reason. */
  readonly samples: readonly Refusal[];
}

/**
 * A refused merge. It does not hold the id, which may be that of somebody who is to be forgotten; the id
 * stands in the event, for as long as that is stored.
 */
export interface Refusal {
  readonly rule: JoinRule;
  readonly reason: RefusalReason;
  /** Key of the id that would have joined, to tell it from others. */
  readonly key: IdentityKey;
  /** Position of the event. */
  readonly position: Position;
  readonly source: number;
  readonly at: Time;
  /** True for a client source: its samples push out none of a server's. */
  readonly isPublic: boolean;
}

/** Samples that a profile keeps. */
const SAMPLES = 10;

const RULES: readonly JoinRule[] = ['identify', 'alias', 'external'];
const REASONS: readonly RefusalReason[] = [
  'belongs_to_another_user',
  'alias_off',
  'too_many_ids',
  'unproven',
  'split',
];

export function withRefusal(refusals: Refusals | undefined, one: Refusal): Refusals {
  const { count, samples } = refusals ?? { count: 0, samples: [] };
  const isKnown = samples.some(({ key, reason }) => key === one.key && reason === one.reason);
  return { count: count + 1, samples: isKnown ? samples : bounded([...samples, one]) };
}

/** Combines the refusals of two profiles that were merged. */
export function joinRefusals(a: Refusals | undefined, b: Refusals | undefined): Refusals | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  const all = [...a.samples, ...b.samples].sort((one, other) => one.position - other.position);
  const names = new Map(all.toReversed().map((one) => [`${one.key} ${one.reason}`, one]));
  return {
    count: a.count + b.count,
    samples: bounded(all.filter((one) => [...names.values()].includes(one))),
  };
}

/** Keeps the newest samples, those of servers first. */
function bounded(samples: readonly Refusal[]): Refusal[] {
  const left = [...samples];
  while (left.length > SAMPLES) {
    const oldest = left.findIndex(({ isPublic }) => isPublic);
    left.splice(Math.max(0, oldest), 1);
  }
  return left;
}

export function writeRefusals(writer: ByteWriter, { count, samples }: Refusals): void {
  writer.varint(count);
  writer.varint(samples.length);
  for (const { rule, reason, key, position, source, at, isPublic } of samples) {
    writer.varint((REASONS.indexOf(reason) * RULES.length + RULES.indexOf(rule)) * 2 + (isPublic ? 1 : 0));
    writer.varint(key);
    writer.varint(position);
    writer.varint(source);
    writer.time(at);
  }
}

export function readRefusals(reader: ByteReader): Refusals {
  const count = reader.varint();
  const samples: Refusal[] = [];
  for (let left = reader.varint(); left > 0; left--) {
    const code = reader.varint();
    const kinds = code >>> 1;
    const reason = REASONS[Math.floor(kinds / RULES.length)];
    if (reason === undefined) throw new RangeError('a refused merge has no reason');
    samples.push({
      ...{ rule: RULES[kinds % RULES.length]!, reason, isPublic: code % 2 === 1 },
      ...{ key: reader.varint(), position: reader.varint(), source: reader.varint(), at: reader.time() },
    });
  }
  return { count, samples };
}
