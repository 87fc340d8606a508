import type { Status } from '../api/queries.ts';

/** Counters with the server's time at which they were read. Two of them give a rate. */
export type Reading = Pick<Status, 'at' | 'sources'>;

/** Calls received per second between the first and the last reading; undefined with fewer than two. */
export function receivedRate(readings: readonly Reading[]): number | undefined {
  const [first, last] = [readings[0], readings.at(-1)];
  if (first === undefined || last === undefined) return undefined;
  const seconds = (Date.parse(last.at) - Date.parse(first.at)) / 1000;
  // A restart reads the same counters; a removed source takes its own away.
  return seconds <= 0 ? undefined : Math.max(0, received(last) - received(first)) / seconds;
}

function received({ sources }: Reading): number {
  return Object.values(sources).reduce((sum, source) => sum + source.received, 0);
}

interface Verdict {
  readonly isGood: boolean;
  readonly label: string;
  readonly title: string;
}

/** Says in two words whether every sum of the ledger balances. */
export function ledgerVerdict({ balanced, differences }: Pick<Status, 'balanced' | 'differences'>): Verdict {
  if (balanced) return { isGood: true, label: '0 lost', title: 'Every sum of the ledger comes out' };
  const lost = differences.reduce((sum, { difference }) => sum + Math.max(0, difference), 0);
  const label = lost > 0 ? `${lost.toLocaleString('en-US')} lost` : 'does not balance';
  return { isGood: false, label, title: 'A sum of the ledger does not come out: see which' };
}
