import { describe, expect, it } from 'vitest';
import { CounterSums } from '../counter-sums.ts';
import { addLedgerValues, type ColumnValue, ledgerValues, RecordWriter, readRecords } from './records.ts';

describe('records of the redo log', () => {
  const VALUES: readonly ColumnValue[] = [
    null,
    0,
    127,
    128,
    2 ** 32 * 7 + 1,
    Number.MAX_SAFE_INTEGER,
    -1,
    0.5,
    Number.NaN,
    '',
    'ü€𝄞',
    new Uint8Array(),
    Buffer.from([0, 255, 0]),
  ];

  it('are read as they were written', () => {
    const writer = new RecordWriter(1000);
    expect(writer.add(1, VALUES)).toBe(true);
    expect(writer.add(7, [])).toBe(true);
    const [first, second, ...more] = readRecords(writer.take());
    expect(first).toEqual({
      kind: 1,
      values: VALUES.map((value) => (value instanceof Uint8Array ? Buffer.from(value) : value)),
    });
    expect(second).toEqual({ kind: 7, values: [] });
    expect(more).toEqual([]);
    expect(writer.take()).toHaveLength(0);
  });

  it('leave no trace where there is no room for them', () => {
    for (let limit = 0; limit < 200; limit++) {
      const writer = new RecordWriter(limit);
      const before = writer.add(1, ['small']);
      const isWritten = writer.add(2, VALUES);
      const read = [...readRecords(writer.take())];
      expect(read.map(({ kind }) => kind)).toEqual([...(before ? [1] : []), ...(isWritten ? [2] : [])]);
    }
    expect(new RecordWriter(4000).add(1, Array(256).fill(null))).toBe(false);
  });

  it('refuse bytes that are none', () => {
    expect(() => [...readRecords(Buffer.from([1, 1, 9]))]).toThrow('unknown type 9');
  });

  it('hold every counter of the ledger', () => {
    const sums = new CounterSums();
    sums.add('source', 1, 'received', 3);
    sums.add('source', 70_000, 'discarded:no_event', 1);
    sums.add('destination', 2, 'owed', -4);
    sums.add('destination', 3, 'dead:status_400', 2);
    const read = new CounterSums();
    addLedgerValues(read, ledgerValues(sums));
    expect([...read]).toEqual([...sums]);
  });
});
