import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Attempt } from '../../model/delivery.ts';
import type { Position } from '../../model/event.ts';
import { pushVarint, readVarint } from './varint.ts';

/** Positions that one row may span, so that looking for one event means looking at few rows. */
const SPAN = 4096;

/** Rows dropped in one slice. */
const SLICE = 256;

/** Latencies are kept in tenths of a millisecond. */
const LATENCY_UNITS = 10;

/** A request that went well. */
export interface Accepted {
  readonly position: Position;
  readonly startedAt: number;
  readonly latencyMs: number;
  readonly status: number;
}

/** A request that went well, of a delivery to this destination. */
export interface AcceptedBy {
  readonly destination: number;
  readonly attempt: Attempt;
}

/**
 * Requests that were accepted, some seven bytes each: a row for those of one settle to one endpoint. In a row stand
 * varints, for each request in the order of positions: gap since the position before, milliseconds since the first request
 * of the row, latency, status.
 */
export class AcceptedAttempts {
  readonly #insert: StatementSync;
  readonly #around: StatementSync;
  readonly #facts: StatementSync;
  readonly #drop: StatementSync;
  readonly #intern: StatementSync;
  readonly #endpoints = new Map<string, number>();
  #waiting = new Map<string, { destination: number; endpoint: string; accepted: Accepted[] }>();

  constructor(database: DatabaseSync) {
    this.#insert = database.prepare(
      'insert into accepted_attempt(destination, endpoint, first, last, at, facts) values (?, ?, ?, ?, ?, ?)',
    );
    this.#around = database.prepare(
      `select a.destination, e.url, a.first, a.at, a.facts from accepted_attempt a join endpoint e on e.id = a.endpoint
       where a.first > ? and a.first <= ? and a.last >= ?`,
    );
    this.#facts = database.prepare(
      'select destination, first, at, facts from accepted_attempt where first > ? and first <= ? and last >= ?',
    );
    this.#drop = database.prepare(
      `delete from accepted_attempt where id in
         (select id from accepted_attempt where first < ? order by first limit ${SLICE})`,
    );
    this.#intern = database.prepare(
      'insert into endpoint(url) values (?) on conflict(url) do update set url = url returning id',
    );
  }

  /** Notes a request; `write` writes it. */
  add(destination: number, endpoint: string, accepted: Accepted): void {
    const key = `${destination} ${endpoint}`;
    const group = this.#waiting.get(key);
    if (group) group.accepted.push(accepted);
    else this.#waiting.set(key, { destination, endpoint, accepted: [accepted] });
  }

  write(): void {
    for (const { destination, endpoint, accepted } of this.#waiting.values()) {
      const id = this.#idOf(endpoint);
      accepted.sort((a, b) => a.position - b.position);
      for (let from = 0; from < accepted.length; ) {
        let to = from + 1;
        while (to < accepted.length && accepted[to]!.position < accepted[from]!.position + SPAN) to++;
        const row = accepted.slice(from, to);
        const at = row.reduce(
          (earliest, { startedAt }) => Math.min(earliest, Math.floor(startedAt)),
          Infinity,
        );
        this.#insert.run(destination, id, row[0]!.position, row.at(-1)!.position, at, encode(row, at));
        from = to;
      }
    }
    this.#waiting = new Map();
  }

  /** Visits where one of these destinations has accepted a request, from a position on and below another. */
  visitBetween(
    from: Position,
    below: Position,
    destinations: ReadonlySet<number>,
    visit: (destination: number, position: Position) => void,
  ): void {
    if (destinations.size === 0) return;
    for (const each of this.#facts.iterate(from - SPAN, below - 1, from) as Iterable<unknown>) {
      const { destination, facts, first, at } = each as Row;
      if (!destinations.has(destination)) continue;
      for (const { position } of decode(facts, first, at))
        if (position >= from && position < below) visit(destination, position);
    }
  }

  /** The accepted requests for each of these events, by position; ascending or not. */
  at(positions: readonly Position[]): Map<Position, AcceptedBy[]> {
    const found = new Map<Position, AcceptedBy[]>(positions.map((position) => [position, []]));
    const sorted = [...found.keys()].sort((a, b) => a - b);
    for (let from = 0; from < sorted.length; ) {
      let to = from + 1;
      // Rows that are around one of them are mostly around its neighbours too, and are decoded once for all.
      while (to < sorted.length && sorted[to]! - sorted[to - 1]! < SPAN) to++;
      this.#collect(sorted[from]!, sorted[to - 1]!, found);
      from = to;
    }
    return found;
  }

  #collect(first: Position, last: Position, found: ReadonlyMap<Position, AcceptedBy[]>): void {
    for (const each of this.#around.iterate(first - SPAN, last, first) as Iterable<unknown>) {
      const row = each as Row;
      for (const { position, startedAt, latencyMs, status } of decode(row.facts, row.first, row.at)) {
        const outcome = { kind: 'accepted', reason: `status_${status}`, status } as const;
        const attempt = { endpoint: row.url, startedAt, latencyMs, outcome };
        found.get(position)?.push({ destination: row.destination, attempt });
      }
    }
  }

  /** Drops a slice of the rows that are all below a position. False when there are none. */
  dropBelow(position: Position): boolean {
    return Number(this.#drop.run(position - SPAN).changes) > 0;
  }

  #idOf(url: string): number {
    const known = this.#endpoints.get(url);
    if (known !== undefined) return known;
    const { id } = this.#intern.get(url) as { id: number };
    this.#endpoints.set(url, id);
    return id;
  }
}

interface Row {
  destination: number;
  url: string;
  first: number;
  at: number;
  facts: Uint8Array;
}

function encode(row: readonly Accepted[], at: number): Uint8Array {
  const bytes: number[] = [];
  let before = row[0]!.position;
  for (const { position, startedAt, latencyMs, status } of row) {
    pushVarint(bytes, position - before);
    pushVarint(bytes, Math.floor(startedAt) - at);
    pushVarint(bytes, Math.round(latencyMs * LATENCY_UNITS));
    pushVarint(bytes, status);
    before = position;
  }
  return Uint8Array.from(bytes);
}

function decode(facts: Uint8Array, first: Position, at: number): Accepted[] {
  const accepted: Accepted[] = [];
  const cursor = { at: 0 };
  let position = first;
  while (cursor.at < facts.length) {
    position += readVarint(facts, cursor);
    const startedAt = at + readVarint(facts, cursor);
    const latencyMs = readVarint(facts, cursor) / LATENCY_UNITS;
    accepted.push({ position, startedAt, latencyMs, status: readVarint(facts, cursor) });
  }
  return accepted;
}
