import { hash } from 'node:crypto';
import {
  type EventChunk,
  type EventRow,
  INSTALLATION_PARTS,
  type InstallationPart,
  type InstallationRow,
} from '../ports/installation.ts';

/** The checksum of no row. */
export const EMPTY_CHECKSUM = '';

/**
 * The checksum of a part, gone on with from that of the rows before: SHA-256 of the one before and of the
 * row. It is the same for the same rows from every engine, and can be gone on with by another process.
 */
export function checksumOfRows<Part extends InstallationPart>(
  before: string,
  part: Part,
  rows: readonly InstallationRow[],
): string {
  let checksum = before;
  for (const row of rows) {
    const bytes = part === 'events' ? eventBytes(row as EventRow) : cellBytes(part, row);
    if (bytes !== undefined) checksum = hash('sha256', Buffer.concat([Buffer.from(checksum), ...bytes]));
  }
  return checksum;
}

/** Each cell with its kind and its length, so that no two rows have the same bytes. */
function cellBytes(part: InstallationPart, row: InstallationRow): Uint8Array[] {
  return INSTALLATION_PARTS[part].flatMap((column) => {
    const value = (row as unknown as Record<string, unknown>)[column];
    if (value === null || value === undefined) return [Buffer.from('-')];
    if (value instanceof Uint8Array) return [Buffer.from(`b${value.byteLength} `), value];
    const text = Buffer.from(String(value));
    return [Buffer.from(`${typeof value === 'number' ? 'n' : 't'}${text.byteLength} `), text];
  });
}

/**
 * Undefined for a stretch of the log without any event: engines differ in how they keep it. One that cannot
 * be read has no bytes to compare.
 */
function eventBytes(row: EventRow): Uint8Array[] | undefined {
  if (row.kind === 'unreadable' || !hasEvents(row)) return undefined;
  const { first, n, stage, lines, sources, times, plans, keys, users } = row;
  const columns = [sources, times, plans, keys, users].map((column) => bytesOf(column));
  return [Buffer.from(`${first} ${n} ${stage} ${lines.byteLength} `), lines, ...columns];
}

/** Whether any place of a chunk has an event, or had one. */
export function hasEvents({ sources }: EventChunk): boolean {
  return sources.some((source) => source !== 0);
}

function bytesOf({ buffer, byteOffset, byteLength }: Uint32Array | Float64Array): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}
