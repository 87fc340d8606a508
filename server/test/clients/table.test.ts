import { describe, expect, it } from 'vitest';
import { documented, eventsIn } from './calls.ts';
import type { Client, Facts } from './client.ts';
import { expected } from './expectations.ts';
import { lasting, page } from './table.ts';

const client = (name: string, version: string, way: Client['way'] = 'batches'): Client => ({
  name,
  version,
  way,
  run: () => Promise.reject(new Error('not run here')),
});
const GOOD = client('@segment/analytics-node', '3.1.0');
const OLD = client('@segment/analytics-node', '2.3.0');
const RUN = { date: '2026-11-21', node: '24.0.0', chromium: '150.0' };

const rowsOf = (text: string) => text.split('\n').filter((line) => /^\| @?\S+ \d/.test(line));

describe('the compatibility table', () => {
  it('says what was seen, not what was expected', () => {
    const facts: Facts = { tries: 3, lost: true };
    const seen = page([GOOD], (_, name) => (name === 'unavailable' ? facts : undefined), RUN);
    expect(rowsOf(seen)[0]).toContain('| lost silently, 3 tries |');
    expect(page([GOOD], () => undefined, RUN)).not.toContain('| lost silently, 3 tries |');
  });

  it('gives a client that could not run the row that is expected of it', () => {
    expect(rowsOf(page([GOOD], () => undefined, RUN))[0]).toBe(
      '| @segment/analytics-node 3.1.0, batches | once | once | once, 2 tries | once, 2 tries | once, 5 tries | lost | lost |',
    );
  });

  it('numbers each note once, however many clients share it', () => {
    const text = page([OLD, client('@segment/analytics-node', '1.3.0')], () => undefined, RUN);
    expect(text.match(/lost, 4 tries \[2\]/g)).toHaveLength(2);
    expect(text.match(/^2\. It gives up after three retries/gm)).toHaveLength(1);
  });

  it('differs from another run in one line only', () => {
    const later = page([GOOD], () => undefined, { date: '2027-01-01', node: '26.0.0', chromium: undefined });
    const text = page([GOOD], () => undefined, RUN);
    expect(later).not.toBe(text);
    expect(lasting(later)).toBe(lasting(text));
    expect(lasting(text)).not.toContain('2026-11-21');
  });

  it('holds the exceptions to the versions they were seen in', () => {
    expect(expected(OLD, 'outage')).toMatchObject({ lost: true, tries: 4 });
    expect(expected(GOOD, 'outage')).toEqual({ tries: 5 });
    expect(expected(client('analytics-node', '6.2.0'), 'hangBefore')).toMatchObject({ lost: true, tries: 1 });
  });
});

describe('what the suite reads from the wire', () => {
  it('finds the events of a batch and of a single call, each with the time it was sent', () => {
    const batch = { sentAt: 's', batch: [{ type: 'track', messageId: 'm' }] };
    expect(eventsIn(Buffer.from(JSON.stringify(batch)))).toEqual([
      { type: 'track', messageId: 'm', sentAt: 's' },
    ]);
    const single = { type: 'track', messageId: 'm', sentAt: 's' };
    expect(eventsIn(Buffer.from(JSON.stringify(single)))).toEqual([single]);
  });

  it('writes the documented body down with its keys in their order', () => {
    const event = { context: { a: 1 }, messageId: 'm', userId: 'u', previousId: 'p', type: 'alias' as const };
    expect(documented(event).map(([key]) => key)).toEqual([
      'version',
      'type',
      'Previous ID',
      'User ID',
      'messageId',
      'context',
    ]);
    expect(Object.fromEntries(documented({ type: 'page', messageId: 'm', anonymousId: null }))).toEqual({
      version: 1,
      type: 'page',
      messageId: 'm',
      properties: {},
      context: {},
    });
  });
});
