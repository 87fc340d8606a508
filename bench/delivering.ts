import { setTimeout as sleep } from 'node:timers/promises';
import { openSqliteStore } from '../server/src/adapters/sqlite/store.ts';
import type { DestinationRecord } from '../server/src/model/settings.ts';
import { type Figure, SECONDS } from './figures.ts';
import { type Bench, run } from './processes.ts';

/**
 * A data folder with this many events of about 600 bytes, each owed to one of the destinations, by turns, or
 * to nobody if there is none.
 */
export async function writeBacklog(
  data: string,
  events: number,
  destinations: readonly DestinationRecord[],
): Promise<void> {
  const store = await openSqliteStore({ folder: data });
  const applied = (await store.settings.apply({ sources: [], destinations })).destinations;
  const pad = 'x'.repeat(380);
  for (let n = 0; n < events; n += 500) {
    const batch = Array.from({ length: 500 }, (_, index) => {
      const messageId = `backlog-${n + index}`;
      const event = {
        messageId,
        type: 'track',
        channel: 'server',
        userId: 'u1',
        event: 'Order Completed',
        properties: { pad },
      };
      const times = { timestamp: '2026-03-04T05:06:07.089Z', receivedAt: '2026-03-04T05:06:07.189Z' };
      return {
        source: 1,
        messageId,
        json: JSON.stringify({ ...event, context: {}, integrations: {}, ...times }),
      };
    });
    const indexes = batch.map((_, index) => index);
    const to = applied.slice((n / 500) % applied.length).slice(0, 1);
    const owed = to.map(({ id }) => ({ destination: id, state: 'parked' as const, indexes }));
    await store.log.append({
      id: `b${n}`,
      receivedAt: Date.now(),
      events: batch,
      plans: [{ owed: to.map(({ id }) => ({ id })), skipped: [] }],
      planIndexes: indexes.map(() => 0),
      owed,
      received: [],
    });
  }
  await store.stop();
}

/** Deliveries that arrive while the program is at full speed, after this many seconds of warm-up. */
export async function whileDelivering(server: Bench, receiver: Bench, warmUp: number): Promise<Figure> {
  await sleep(warmUp * 1000);
  const [count, cpu, at] = [Number(await receiver.ask('count')), server.cpu(), performance.now()];
  await sleep(SECONDS * 1000);
  const arrived = Number(await receiver.ask('count')) - count;
  const seconds = (performance.now() - at) / 1000;
  return {
    perSecond: arrived / seconds,
    perCpuSecond: arrived / (server.cpu() - cpu),
    memory: server.memory(),
  };
}

/** An endpoint that answers after so many milliseconds, and its port. */
export async function startReceiver(answersAfter = 0): Promise<[Bench, string]> {
  const receiver = run(['bench/receiver.ts', String(answersAfter)]);
  return [receiver, (await receiver.saw(/listening (\d+)/))[1]!];
}
