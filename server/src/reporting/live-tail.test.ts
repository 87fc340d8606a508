import { setImmediate as turn } from 'node:timers/promises';
import { beforeEach, describe, expect, test } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { TAIL_EVENTS } from '../control-api/operations/tail.ts';
import type { Event } from '../model/event.ts';
import { lineOf } from '../model/serialized-event.ts';
import { SECOND } from '../model/time.ts';
import type { ResponseStream } from '../ports/control-api.ts';
import type { Activity } from '../ports/telemetry.ts';
import type { TailOptions } from './contract.ts';
import { LiveTail } from './live-tail.ts';

const START = Date.UTC(2026, 2, 4, 5, 6, 7);

const event: Event = {
  ...{ messageId: 'm1', type: 'track', channel: 'server', userId: 'u1', event: 'Order Placed' },
  ...{ properties: { total: 9 }, context: { ip: '10.0.0.1' }, integrations: {} },
  ...{ timestamp: '2026-03-04T05:06:07.000Z', receivedAt: '2026-03-04T05:06:07.000Z' },
};

const accepted: Activity = { kind: 'accepted', source: 'website', event, latencyMs: 3 };
const duplicate: Activity = { ...accepted, kind: 'duplicate', source: 'app' };
const discarded: Activity = { kind: 'discarded', source: 'website', reason: 'invalid_user_id' };
const wrongKey: Activity = { kind: 'discarded', reason: 'invalid_write_key' };
const attempt = {
  ...{
    endpoint: 'https://crm.example/in?token=t0ken',
    startedAt: START,
    latencyMs: 6,
    answer: 'secret answer',
  },
  outcome: { kind: 'retryable', reason: 'status_503', status: 503 },
} as const;
const delivered: Activity = {
  ...{ kind: 'settled', source: 'website', destination: 'crm', event },
  attempts: [{ ...attempt, outcome: { kind: 'accepted', reason: 'status_200', status: 200 } }],
  decision: { kind: 'delivered' },
};
const retried: Activity = {
  ...{ kind: 'settled', source: 'app', destination: 'warehouse', event: { ...event, type: 'page' } },
  attempts: [attempt],
  decision: { kind: 'retry', at: START + 2000 },
};
const dead: Activity = {
  ...{ kind: 'settled', source: 'website', destination: 'crm', event, attempts: [] },
  decision: { kind: 'dead', reason: 'status_410' },
};
const ALL = [accepted, duplicate, discarded, delivered, retried, dead, wrongKey];

/** The client of one viewer: what was written, and whether it takes it. */
class Client {
  text = '';
  isOpen = true;
  reads = true;
  readonly stream: ResponseStream;

  constructor(stream: ResponseStream | 'full') {
    if (stream === 'full') throw new Error('full');
    this.stream = stream;
    stream.begin({
      write: (text) => {
        this.text += text;
        return this.reads;
      },
      end: () => {
        this.isOpen = false;
        stream.gone();
      },
    });
  }

  /** Events so far, and nothing of them any more. */
  take(): { name: string; data: Record<string, unknown> }[] {
    const events = [...this.text.matchAll(/^event: (\w+)\ndata: (.*)\n\n/gm)];
    this.text = '';
    return events.map(([, name, data]) => ({ name: name!, data: JSON.parse(data!) }));
  }
}

const ANYTHING: TailOptions = { body: false, mayWatch: () => true };

describe('watching what happens', () => {
  const clock = handClock(START);
  let tail: LiveTail;
  beforeEach(() => {
    tail = new LiveTail({ clock });
  });

  const watch = (wish: Partial<TailOptions> = {}) => new Client(tail.open({ ...ANYTHING, ...wish }));

  async function happen(...happenings: readonly Activity[]): Promise<void> {
    for (const happening of happenings) tail.observer?.(happening);
    await turn();
  }

  test('costs nothing while nobody does, and leaves to whoever watches all the time what they had', () => {
    expect(tail.observer).toBeUndefined();
    const seen: Activity[] = [];
    const always = new LiveTail({ clock, observer: (one) => void seen.push(one) });
    const alone = always.observer;
    alone?.(accepted);
    const viewer = new Client(always.open(ANYTHING));
    always.observer?.(duplicate);
    viewer.stream.gone();
    expect(seen).toEqual([accepted, duplicate]);
    expect(always.observer).toBe(alone);
  });

  test('shows each happening as the document of the control API says, and nothing of an event but what names it', async () => {
    const viewer = watch();
    expect(viewer.text).toBe(': watching\n\n');
    await happen(...ALL);
    expect(viewer.text).not.toMatch(/total|10\.0\.0\.1|t0ken|secret answer/);
    const events = viewer.take();
    expect(events.map(({ name }) => name)).toEqual(ALL.map(({ kind }) => kind));
    for (const { name, data } of events) {
      expect(TAIL_EVENTS[name as keyof typeof TAIL_EVENTS].strict().parse(data)).toEqual(data);
    }
    const naming = { messageId: 'm1', type: 'track', userId: 'u1', event: 'Order Placed' };
    expect(events[0]!.data).toEqual({
      ...{ at: '2026-03-04T05:06:07.000Z', source: 'website', event: naming, latencyMs: 3 },
    });
    expect(events[4]!.data).toMatchObject({
      ...{ source: 'app', destination: 'warehouse', state: 'retrying' },
      nextAttemptAt: '2026-03-04T05:06:09.000Z',
      attempts: [
        { endpoint: 'https://crm.example/in?token=…', outcome: 'retryable', status: 503, latencyMs: 6 },
      ],
    });
    expect(events[5]!.data).toMatchObject({ state: 'dead', reason: 'status_410', attempts: [] });
  });

  test('shows events whole to those who ask for it, and to nobody else', async () => {
    const [whole, short] = [watch({ body: true }), watch()];
    await happen(accepted);
    expect(whole.take()[0]!.data['event']).toEqual(event);
    expect(short.text).not.toContain('total');
  });

  const filters: [Partial<TailOptions>, readonly Activity[]][] = [
    [{ source: 'website' }, [accepted, discarded, delivered, dead]],
    [{ source: 'app', failed: true }, [retried]],
    [{ destination: 'crm' }, [delivered, dead]],
    [{ type: 'page' }, [retried]],
    [{ type: 'track', destination: 'crm', failed: true }, [dead]],
    [{ failed: true }, [discarded, retried, dead, wrongKey]],
  ];
  test.each(filters)('shows to %j only that', async (wish, expected) => {
    const viewer = watch(wish);
    await happen(...ALL);
    expect(viewer.take().map(({ name, data }) => [name, data['source']])).toEqual(
      expected.map(({ kind, source }) => [kind, source]),
    );
  });

  test('a viewer who does not read loses what is beyond the bound, and is told how much, where it is missing', async () => {
    const [slow, quick] = [watch(), watch()];
    slow.reads = false;
    await happen(accepted);
    const before = slow.text.length;
    const some = 20_000;
    for (let n = 0; n < some; n += 100) {
      await happen(...Array.from({ length: 100 }, () => accepted));
    }
    expect(slow.text.length).toBe(before);
    slow.reads = true;
    slow.stream.drained();
    expect(slow.text.length).toBeLessThan(2 ** 20);
    await happen(dead);
    const events = slow.take();
    const [lost] = events.filter(({ name }) => name === 'lost');
    expect(events.slice(-2).map(({ name }) => name)).toEqual(['lost', 'settled']);
    expect(lost!.data['count']).toBe(some + 1 - events.filter(({ name }) => name === 'accepted').length);
    expect(Number(lost!.data['count'])).toBeGreaterThan(some / 2);
    expect(quick.take().filter(({ name }) => name === 'accepted')).toHaveLength(some + 1);
  });

  test('a viewer who asks for so many a second is told of the others, and of those that match the filter only', async () => {
    const [some, other] = [watch({ max: 10 }), watch({ max: 10, source: 'other' })];
    const line = lineOf(JSON.stringify(event));
    let made = 0;
    for (let n = 0; n < 1000; n++) {
      if (tail.passesOver(line, 'website')) continue;
      made++;
      tail.observer?.(accepted);
    }
    expect(made).toBe(10);
    await happen(dead);
    await clock.pass(SECOND);
    const names = some.take().map(({ name, data }) => [name, data['count']]);
    expect(names.filter(([name]) => name === 'accepted')).toHaveLength(10);
    expect(names.slice(-2)).toEqual([
      ['settled', undefined],
      ['passed', 990],
    ]);
    expect(other.take()).toEqual([]);
  });

  test('nothing is passed over while somebody watches everything', () => {
    const viewers = [watch({ max: 1 }), watch()];
    const line = lineOf(JSON.stringify(event));
    const passed = Array.from({ length: 100 }, () => tail.passesOver(line, 'website'));
    expect(passed).not.toContain(true);
    for (const { stream } of viewers) stream.gone();
  });

  test('a quiet connection has a sign of life every 15 seconds, and ends when the token may watch no longer', async () => {
    let may = true;
    const viewer = watch({ mayWatch: () => may });
    viewer.text = '';
    await clock.pass(31 * SECOND);
    expect(viewer.text).toBe(': still here\n\n: still here\n\n');
    may = false;
    await clock.pass(15 * SECOND);
    expect(viewer.isOpen).toBe(false);
    expect(tail.observer).toBeUndefined();
  });

  test('the twenty-first viewer finds no place, until one goes', () => {
    const viewers = Array.from({ length: 20 }, () => watch());
    expect(tail.open(ANYTHING)).toBe('full');
    viewers[7]!.stream.gone();
    watch();
    expect(tail.open(ANYTHING)).toBe('full');
  });

  test('a viewer whose head is not written yet misses nothing, and one that never comes leaves its place', async () => {
    const opened = tail.open(ANYTHING);
    await happen(accepted);
    expect(new Client(opened).take()).toMatchObject([{ name: 'accepted' }]);
    const never = tail.open(ANYTHING);
    if (never !== 'full') never.gone();
    if (opened !== 'full') opened.gone();
    expect(tail.observer).toBeUndefined();
  });

  test('ends every answer when the server stops, also of those who come too late', () => {
    const viewer = watch();
    tail.stop();
    expect(viewer.isOpen).toBe(false);
    expect(watch().isOpen).toBe(false);
  });
});
