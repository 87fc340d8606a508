import type { Position } from '../../../model/event.ts';
import type {
  EventChunk,
  EventRow,
  PartCursor,
  PartPage,
  UnreadableEvents,
} from '../../../ports/installation.ts';
import type { Chunk } from '../../encoding/chunk-codec.ts';
import { MAX_CHUNK_EVENTS, REMNANT } from '../../encoding/chunk-lines.ts';
import type { ChunkFacts } from '../../encoding/chunk-merge.ts';
import { hashLines, type KeyHash } from '../../encoding/hashes.ts';
import type { Watermarks } from '../installation.ts';
import type { Chunks } from '../log/chunks.ts';

/** Bytes of JSON, events and chunks after which a page ends. */
const PAGE_BYTES = 4 * 1024 * 1024;
const PAGE_EVENTS = 8000;
const PAGE_CHUNKS = 1000;

export interface EventReaderDependencies {
  readonly chunks: Chunks;
  readonly watermarks: Watermarks;
  readonly hash: KeyHash;
}

/**
 * Reads the log in its order. A chunk that cannot be read is a stretch of unreadable events, and so is a gap
 * where one should be.
 */
export class EventReader {
  readonly #dependencies: EventReaderDependencies;

  constructor(dependencies: EventReaderDependencies) {
    this.#dependencies = dependencies;
  }

  page([after = 0]: PartCursor = []): PartPage<EventRow> {
    const { chunks } = this.#dependencies;
    const from = Number(after);
    const facts = chunks.factsFrom(from, PAGE_CHUNKS);
    const isLast = facts.length < PAGE_CHUNKS;
    const rows: EventRow[] = [];
    let [at, bytes, events] = [from, 0, 0];
    for (const [nth, one] of facts.entries()) {
      // How far a damaged chunk reaches is told by the one behind it, which may stand on the next page.
      if (one.isDamaged && !isLast && nth === facts.length - 1 && nth > 0) return pageOf(rows, at);
      if (bytes > PAGE_BYTES || events > PAGE_EVENTS) return pageOf(rows, at);
      rows.push(...this.#missing(at, one), ...this.#rowsOf(one));
      at = Math.max(at, one.first + one.n);
      bytes += one.json;
      events += one.n;
    }
    if (!isLast) return pageOf(rows, at);
    rows.push(...this.#missing(at, { first: chunks.next, at: facts.at(-1)?.until ?? 0 }));
    return { rows };
  }

  #rowsOf(facts: ChunkFacts): EventRow[] {
    const { chunks } = this.#dependencies;
    const chunk = facts.isDamaged ? undefined : chunks.at(facts.first);
    if (chunk?.first === facts.first) return [this.#chunkOf(chunk)];
    // What is past its retention is gone anyway.
    const isOver = facts.first < this.#dependencies.watermarks.retainedFrom && facts.stage < REMNANT;
    return isOver ? [] : unreadable(facts.first, facts.first + facts.n, facts);
  }

  /**
   * Events are missing where the chunk before does not reach up to the next one, unless they are past their
   * retention.
   */
  #missing(end: Position, { first, at }: Pick<ChunkFacts, 'first' | 'at'>): UnreadableEvents[] {
    const from = Math.max(end, this.#dependencies.watermarks.retainedFrom);
    return unreadable(from, first, { at, until: at });
  }

  #chunkOf(chunk: Chunk): EventChunk {
    const { watermarks, hash } = this.#dependencies;
    const { first, n, stage, body, sources, times, plans, keys } = chunk;
    // Formats before the fifth have no hashes of anonymousIds.
    const users = first < watermarks.anonymousFrom ? hashLines(hash, chunk).users : chunk.users;
    return { kind: 'events', first, n, stage, lines: body, sources, times, plans, keys, users };
  }
}

function unreadable(
  first: Position,
  end: Position,
  { at, until }: Pick<ChunkFacts, 'at' | 'until'>,
): UnreadableEvents[] {
  const rows: UnreadableEvents[] = [];
  for (let from = first; from < end; from += MAX_CHUNK_EVENTS)
    rows.push({ kind: 'unreadable', first: from, n: Math.min(MAX_CHUNK_EVENTS, end - from), at, until });
  return rows;
}

function pageOf(rows: readonly EventRow[], next: Position): PartPage<EventRow> {
  return { rows, next: [next] };
}
