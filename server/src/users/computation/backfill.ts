import type { Event, Position } from '../../model/event.ts';
import type { Time } from '../../model/time.ts';
import type { LogPage } from '../../ports/event-log.ts';
import type { IdentityReader } from '../identity/identity-reader.ts';
import { type LogEvent, readEvents } from '../log-events.ts';
import type { CompiledAggregate } from './audience-compiler.ts';

/** Looking up the owner of a stored event joins nothing: the event made its joins when it was applied. */
const JOINING_NOTHING = { serverSources: [] };

/** Beyond this number of names all lines are read instead of looking for each name. */
const MAX_NAMES = 32;

/**
 * Finds the stored events that definitions mention. The bytes of a name are looked for before anything is
 * parsed, which is some eight times as fast as parsing every event.
 */
export class StoredEventFinder {
  readonly #needles: readonly Buffer[];
  readonly #names: ReadonlySet<string>;
  readonly #reader: IdentityReader;

  constructor(aggregates: readonly Pick<CompiledAggregate, 'type' | 'name'>[], reader: IdentityReader) {
    // A page without a name is found by its type.
    const names = [...new Set(aggregates.map(({ type, name }) => (name === '' ? type : name)))];
    this.#needles = names.length > MAX_NAMES ? [] : names.map((name) => Buffer.from(JSON.stringify(name)));
    this.#names = new Set(aggregates.map(({ type, name }) => `${type}\0${name}`));
    this.#reader = reader;
  }

  /** The events of a page below a position that have one of the names. */
  find(page: LogPage, below: Position): LogEvent[] {
    const lines = Math.max(0, Math.min(page.sources.length, below - page.first));
    const wanted = this.#needles.length === 0 ? allOf(lines) : this.#linesWithNames(page, lines);
    if (wanted.length === 0) return [];
    const { events } = readEvents(pageOf(page, wanted), this.#reader, JOINING_NOTHING);
    return events.filter(({ type, name }) => this.#names.has(`${type}\0${name}`));
  }

  #linesWithNames({ lines, starts }: LogPage, n: number): number[] {
    const bytes = Buffer.from(lines.buffer, lines.byteOffset, lines.byteLength);
    const found = new Set<number>();
    const end = starts[n]!;
    for (const needle of this.#needles) {
      for (let line = 0, at = bytes.indexOf(needle); at >= 0 && at < end; at = bytes.indexOf(needle, at)) {
        line = lineAt(starts, at, line);
        found.add(line);
        at = starts[line + 1]!;
      }
    }
    return [...found].sort((a, b) => a - b);
  }
}

function allOf(lines: number): number[] {
  return Array.from({ length: lines }, (_, line) => line);
}

/** The line that holds an offset, not before line `low`. */
function lineAt(starts: Uint32Array, offset: number, low: number): number {
  let high = starts.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >>> 1;
    if (starts[middle]! <= offset) low = middle;
    else high = middle;
  }
  return low;
}

/** These lines of a page as a page of their own. Their positions are lost. */
function pageOf(page: LogPage, wanted: readonly number[]): LogPage {
  const starts = new Uint32Array(wanted.length + 1);
  const pieces: Uint8Array[] = [];
  wanted.forEach((line, nth) => {
    const piece = page.lines.subarray(page.starts[line]!, page.starts[line + 1]!);
    // The last line of a page has no line feed behind it.
    const length = page.starts[line + 1]! - page.starts[line]!;
    pieces.push(piece.length === length ? piece : Buffer.concat([piece], length));
    starts[nth + 1] = starts[nth]! + length;
  });
  return {
    ...page,
    lines: Buffer.concat(pieces),
    starts,
    sources: Uint32Array.from(wanted, (line) => page.sources[line]!),
    times: Float64Array.from(wanted, (line) => page.times[line]!),
  };
}

/**
 * When the first event of a page arrived by the wall clock; undefined when there is none or it cannot be
 * read.
 */
export function arrivalIn({ lines, starts, sources }: LogPage): Time | undefined {
  for (let line = 0; line < sources.length; line++) {
    const text = Buffer.from(lines.subarray(starts[line]!, starts[line + 1]! - 1)).toString();
    try {
      const at = Date.parse((JSON.parse(text) as Event).receivedAt);
      if (!Number.isNaN(at)) return at;
    } catch {
      // It was erased or is damaged.
    }
  }
  return undefined;
}
