import { expect } from 'vitest';
import { GIVE_UP_AFTER } from '../support/until.ts';
import type { Calls } from './calls.ts';
import { brokenPromises, Client } from './traffic.ts';
import { lasting } from './waiting.ts';

/**
 * Sends a new call, then everything that was turned away, until all of it is accepted.
 * Resolves to the milliseconds until the first acceptance.
 */
export async function everythingAccepted(url: string, calls: Calls): Promise<number> {
  const began = performance.now();
  const client = new Client(url, 1);
  let request = calls.make(1);
  let recovery: number | undefined;
  try {
    for (;;) {
      const answer = await client.send(request);
      calls.note(request, answer?.status);
      const now = performance.now() - began;
      if (answer === undefined) throw new Error('the connection broke');
      expect(brokenPromises(answer)).toEqual([]);
      if (answer.status === 200) recovery ??= now;
      // clock: it gives up after minutes, as `until` does.
      else if (now > GIVE_UP_AFTER)
        throw new Error(`still turned away ${GIVE_UP_AFTER / 1000} s after the storage works again`);
      else await lasting(50);
      if (calls.open === 0) return recovery!;
      request = calls.retry(100);
    }
  } finally {
    client.close();
  }
}
