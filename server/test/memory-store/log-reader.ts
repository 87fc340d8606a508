import { type LogReader, StorageError } from '../../src/ports/event-log.ts';
import type { MemoryContents } from './contents.ts';

/** Reads the log in the contents of a memory store. */
export function openMemoryLogReader(contents: MemoryContents): LogReader {
  let isStopped = false;
  const check = () => {
    if (isStopped) throw new StorageError('the reader of the log is stopped');
  };
  return {
    async page(from, max) {
      check();
      const first = Math.max(from, contents.retainedFrom);
      const next = Math.max(first, Math.min(first + max, contents.lastPosition + 1));
      const records = Array.from({ length: next - first }, (_, nth) => contents.events.get(first + nth));
      const lines = records.map((record) => Buffer.from(record?.json ?? ''));
      const starts = new Uint32Array(records.length + 1);
      for (const [nth, line] of lines.entries()) starts[nth + 1] = starts[nth]! + line.length + 1;
      return {
        first,
        lines: Buffer.from(lines.map((line) => line.toString()).join('\n')),
        starts,
        sources: Uint32Array.from(records, (record) => record?.source ?? 0),
        times: Float64Array.from(records, (record) => record?.receivedAt ?? 0),
        next,
      };
    },
    async bounds() {
      check();
      const end = contents.lastPosition + 1;
      return { first: Math.min(contents.retainedFrom, end), end };
    },
    async producedTo(producer) {
      check();
      return contents.producers.get(producer) ?? 0;
    },
    async stop() {
      isStopped = true;
    },
  };
}
