import { describe, expect, it } from 'vitest';
import type { EndpointHealth } from '../../src/model/delivery.ts';
import { StorageError } from '../../src/ports/event-log.ts';
import { START, type Subject } from './harness.ts';

function health(url: string, more: Partial<EndpointHealth> = {}): EndpointHealth {
  return { url, attempts: {}, history: [], ...more };
}

const FAILING = health('https://a.example/in?token=ä', {
  ...{ state: 'failing', since: START, lastAcceptedAt: START - 1000 },
  lastError: { at: START, reason: 'status_503', status: 503, answer: 'later\u0000"' },
  attempts: { accepted: 5e9, status_5xx: 3 },
  history: [
    { at: START - 5000, state: 'healthy' },
    { at: START, state: 'failing', reason: 'status_503', flaps: 2 },
  ],
});

/** The sentences of ports/delivery-queue.ts. */
export function endpointHealthConformance(subject: Subject): void {
  describe('the health of endpoints', () => {
    it('is empty at first, and is what was kept last after a crash', async () => {
      expect(await subject.store.endpointHealth.load()).toEqual([]);
      const first = { destination: 1, endpoints: [FAILING, health('https://b.example/')] };
      await subject.store.endpointHealth.save([
        first,
        { destination: 7, endpoints: [health('https://c.example/')] },
      ]);
      const second = {
        destination: 7,
        endpoints: [health('https://c.example/', { attempts: { timeout: 1 } })],
      };
      await subject.store.endpointHealth.save([second]);
      await subject.crash();
      expect(await subject.store.endpointHealth.load()).toEqual([first, second]);
    });

    it('of a destination without endpoints is forgotten, and that of others stays', async () => {
      const { endpointHealth: endpoints } = subject.store;
      await endpoints.save([1, 2, 3].map((destination) => ({ destination, endpoints: [FAILING] })));
      await endpoints.save([
        { destination: 2, endpoints: [] },
        { destination: 9, endpoints: [] },
      ]);
      expect((await endpoints.load()).map(({ destination }) => destination)).toEqual([1, 3]);
      await subject.crash();
      expect((await subject.store.endpointHealth.load()).map(({ destination }) => destination)).toEqual([
        1, 3,
      ]);
    });

    it('is a copy: what the caller does to it afterwards is not kept', async () => {
      const endpoints = [health('https://a.example/')];
      await subject.store.endpointHealth.save([{ destination: 1, endpoints }]);
      endpoints.push(FAILING);
      expect(await subject.store.endpointHealth.load()).toEqual([
        { destination: 1, endpoints: [health('https://a.example/')] },
      ]);
    });

    it('is not written by a process that is gone', async () => {
      const before = await subject.crash();
      const late = before.endpointHealth.save([{ destination: 1, endpoints: [FAILING] }]);
      await expect(late).rejects.toThrow(StorageError);
      expect(await subject.store.endpointHealth.load()).toEqual([]);
    });
  });
}
