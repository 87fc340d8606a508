import { idText, LineIds } from '../../model/line-ids.ts';
import type { EventPrefilter, OwnersQuery, SharedIdsQuery } from '../../ports/event-log.ts';
import type { Chunk } from './chunk-codec.ts';
import { eventLine } from './chunk-lines.ts';
import { ANONYMOUS_NAMESPACE, type KeyHash, USER_NAMESPACE } from './hashes.ts';

/** Finds which of the ids stand in a call of a user who does not own them. */
export class SharedIdSearch {
  readonly shared = new Set<string>();
  readonly #ids: ReadonlySet<string>;
  readonly #owners: ReadonlySet<string>;
  readonly #trusted: ReadonlySet<number>;
  readonly #lineIds = new LineIds();

  constructor({ ids, owners, trusted }: SharedIdsQuery) {
    this.#ids = new Set(ids);
    this.#owners = new Set(owners);
    this.#trusted = new Set(trusted);
  }

  look(line: Buffer, source: number): void {
    const ids = this.#lineIds;
    if (line.length === 0 || !ids.scan(line, 0, line.length) || ids.userTo === 0) return;
    const { anonymousFrom, anonymousTo, previousFrom, previousTo } = ids;
    const used = [
      ...(anonymousTo === 0 ? [] : [idText(line, anonymousFrom, anonymousTo)]),
      ...(previousTo === 0 || !this.#trusted.has(source) ? [] : [idText(line, previousFrom, previousTo)]),
    ].filter((id) => this.#ids.has(id));
    if (used.length === 0 || this.#owners.has(idText(line, ids.userFrom, ids.userTo))) return;
    for (const id of used) this.shared.add(id);
  }
}

/** The owners of an `OwnersQuery`: found by the hash of an event's id, and compared with the event itself. */
export class Owners {
  readonly #users: ReadonlySet<string>;
  readonly #anonymous: ReadonlySet<string>;
  /** Low words by high word. */
  readonly #hashes = new Map<number, number[]>();

  constructor({ userIds, anonymousIds }: OwnersQuery, hash: KeyHash) {
    this.#users = new Set(userIds);
    this.#anonymous = new Set(anonymousIds);
    const words = new Uint32Array(2);
    for (const [namespace, ids] of [
      [USER_NAMESPACE, this.#users],
      [ANONYMOUS_NAMESPACE, this.#anonymous],
    ] as const) {
      for (const id of ids) {
        hash(namespace, id, words, 0);
        const [high = 0, low = 0] = words;
        const lows = this.#hashes.get(high);
        if (lows === undefined) this.#hashes.set(high, [low]);
        else lows.push(low);
      }
    }
  }

  hasHash(high: number, low: number): boolean {
    return this.#hashes.get(high)?.includes(low) === true;
  }

  /** Whether the event of a line is of one of them; false for the line of an event that is gone. */
  have(line: Buffer): boolean {
    if (line.length === 0) return false;
    const { userId, anonymousId } = JSON.parse(line.toString()) as { userId?: string; anonymousId?: string };
    return userId === undefined
      ? anonymousId !== undefined && this.#anonymous.has(anonymousId)
      : this.#users.has(userId);
  }
}

/** Texts that the lines of matching events contain: one needle of each list. The rarest list comes first. */
export function needlesOf({ type, anonymousId, event }: EventPrefilter): Buffer[][] {
  const needles: Buffer[][] = [];
  // The rarest first: only lines that contain it are searched for the others.
  if (anonymousId !== undefined) needles.push([jsonField('anonymousId', JSON.stringify(anonymousId))]);
  if (event !== undefined) {
    const value = event.endsWith('*') ? jsonPrefix(event.slice(0, -1)) : JSON.stringify(event);
    needles.push([jsonField('event', value), jsonField('name', value)]);
  }
  if (type !== undefined) needles.push([jsonField('type', JSON.stringify(type))]);
  return needles;
}

function jsonField(name: string, value: string): Buffer {
  return Buffer.from(`"${name}":${value}`);
}

/**
 * The start of a JSON string. Half of a surrogate pair is left out, because JSON writes it differently from
 * the whole.
 */
function jsonPrefix(text: string): string {
  const whole = /[\ud800-\udbff]$/.test(text) ? text.slice(0, -1) : text;
  return JSON.stringify(whole).slice(0, -1);
}

function markLinesWith(needle: Buffer, { body, starts, n }: Chunk, marks: Uint8Array): void {
  let line = 0;
  for (let at = body.indexOf(needle); at >= 0; at = body.indexOf(needle, starts[line]!)) {
    while (starts[line + 1]! <= at) line++;
    marks[line] = 1;
    line++;
    if (line === n) return;
  }
}

/** Clears the marks of events whose line does not contain one needle of each list. */
export function unmarkWithout(
  [first, ...others]: readonly (readonly Buffer[])[],
  chunk: Chunk,
  marks: Uint8Array,
): void {
  if (first === undefined) return;
  const found = new Uint8Array(chunk.n);
  for (const needle of first) markLinesWith(needle, chunk, found);
  for (let index = 0; index < chunk.n; index++) {
    if (marks[index] === 0) continue;
    const line = found[index] === 0 ? undefined : eventLine(chunk, chunk.first + index);
    const hasAll = line !== undefined && others.every((any) => any.some((needle) => line.includes(needle)));
    if (!hasAll) marks[index] = 0;
  }
}
