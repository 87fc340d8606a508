import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Message } from '../src/call.ts';
import { Client } from '../src/client.ts';
import { backoff, readRetryAfter, spread, verdictOf } from '../src/retry.ts';
import { VERSION } from '../src/version.ts';
import { type Collector, random, startCollector } from './collector.ts';

interface Fixture {
  readonly name: string;
  readonly call: Record<string, unknown>;
  readonly calls: readonly Record<string, unknown>[];
  readonly options: Record<string, unknown>;
  readonly answer: { readonly status?: number };
  readonly tries: number;
  readonly retryAfter?: string;
  readonly expect: {
    readonly item?: Record<string, unknown>;
    readonly bytes?: number;
    readonly error?: string;
    readonly batches: readonly (readonly string[])[];
    readonly errors?: readonly (string | null)[];
    readonly method: string;
    readonly path: string;
    readonly headers: Record<string, string>;
    readonly body: Record<string, unknown>;
    readonly outcome: string;
    readonly atLeastMs: number;
    readonly atMostMs: number;
  };
}

function fixtures(file: string): readonly Fixture[] {
  const path = new URL(`../../../spec/fixtures/client/${file}.json`, import.meta.url);
  return (JSON.parse(readFileSync(path, 'utf8')) as { cases: Fixture[] }).cases;
}

const SENT = '2026-01-02T03:04:05.678Z';
const ISO = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/**
 * The shared fixtures of the client libraries; `spec/fixtures/client/README.md` says what each of them means.
 */
describe('the shared fixtures', () => {
  let collector: Collector;

  beforeAll(async () => {
    collector = await startCollector();
  });
  afterAll(() => collector.stop());

  describe.each(['calls', 'sizes'])('%s', (file) => {
    it.each(fixtures(file).map((fixture) => [fixture.name, fixture] as const))('%s', async (_, fixture) => {
      const { call, expect: wanted } = fixture;
      const client = new Client('wk', { endpoint: collector.url, logger: () => {} });
      const before = Date.now();
      const seen = collector.items.length;
      const message = meant(call) as Message;
      const refusal = client.send(message);
      await client.close();
      const items = collector.items.slice(seen);
      if (wanted.error !== undefined) {
        expect(refusal?.code).toBe(wanted.error);
        expect(items).toEqual([]);
        return;
      }
      expect(refusal).toBeUndefined();
      expect(items).toHaveLength(1);
      const item: Record<string, unknown> = { ...items[0] };
      if (wanted.bytes !== undefined) expect(Buffer.byteLength(JSON.stringify(item))).toBe(wanted.bytes);
      if (wanted.item === undefined) return;
      if (wanted.item['messageId'] === '<id>') {
        expect(String(item['messageId'])).toMatch(/^[\w-]{1,100}$/);
        item['messageId'] = '<id>';
      }
      if (wanted.item['timestamp'] === '<now>') {
        expect(item['timestamp']).toMatch(ISO);
        expect(Date.parse(String(item['timestamp']))).toBeGreaterThanOrEqual(before);
        expect(Date.parse(String(item['timestamp']))).toBeLessThanOrEqual(Date.now());
        item['timestamp'] = '<now>';
      }
      expect(item).toEqual(wanted.item);
    });
  });

  describe('batches', () => {
    it.each(fixtures('batches').map((fixture) => [fixture.name, fixture] as const))(
      '%s',
      async (_, fixture) => {
        const client = new Client('wk', {
          endpoint: collector.url,
          uploads: 1,
          logger: () => {},
          ...fixture.options,
        });
        const seen = collector.requests.length;
        const errors = fixture.calls.map((call) => client.send(meant(call) as Message)?.code ?? null);
        await client.close();
        const sent = collector.requests
          .slice(seen)
          .map(({ body }) => body.batch.map((item) => item.messageId));
        expect(sent).toEqual(fixture.expect.batches);
        if (fixture.expect.errors !== undefined) expect(errors).toEqual(fixture.expect.errors);
      },
    );
  });

  describe('requests', () => {
    it.each(fixtures('requests').map((fixture) => [fixture.name, fixture] as const))(
      '%s',
      async (_, fixture) => {
        const { writeKey, endpointPath } = fixture.options as { writeKey: string; endpointPath: string };
        const client = new Client(writeKey, { endpoint: `${collector.url}${endpointPath}` });
        const seen = collector.requests.length;
        for (const call of fixture.calls) expect(client.send(meant(call) as Message)).toBeUndefined();
        await client.close();
        const [request, ...more] = collector.requests.slice(seen);
        expect(more).toEqual([]);
        const { method, path, headers, body } = fixture.expect;
        expect(request).toMatchObject({ method, path, headers });
        expect(request!.body.sentAt).toMatch(ISO);
        expect({ ...request!.body, sentAt: '<now>' }).toEqual({
          ...body,
          context: { library: { name: '@millrace/client', version: VERSION } },
        });
      },
    );
  });

  describe('answers', () => {
    it.each(fixtures('answers').map((fixture) => [fixture.name, fixture] as const))('%s', (_, fixture) => {
      const { status } = fixture.answer;
      // Without an answer the sender tries again.
      expect(status === undefined ? 'retry' : verdictOf(status)).toBe(fixture.expect.outcome);
    });
  });

  describe('waits', () => {
    it.each(fixtures('waits').map((fixture) => [fixture.name, fixture] as const))('%s', (_, fixture) => {
      const now = Date.parse('2026-11-21T12:00:00Z');
      const waits = Array.from({ length: 1000 }, () => {
        const asked = spread(readRetryAfter(fixture.retryAfter ?? null, null, now), random);
        return Math.max(backoff(fixture.tries, random), asked);
      });
      expect(Math.min(...waits)).toBeGreaterThanOrEqual(fixture.expect.atLeastMs);
      expect(Math.max(...waits)).toBeLessThanOrEqual(fixture.expect.atMostMs);
      expect(new Set(waits).size).toBeGreaterThan(1);
    });
  });
});

/** Values JSON cannot write, written as objects with one key that begins with `$`. */
function meant(written: unknown): unknown {
  if (Array.isArray(written)) return written.map(meant);
  if (typeof written !== 'object' || written === null) return written;
  const { $repeat, $nest, $date, $cycle, ...fields } = written as Record<string, unknown>;
  if (Array.isArray($repeat)) return String($repeat[0]).repeat(Number($repeat[1]));
  if (typeof $date === 'string') return new Date($date);
  if (typeof $nest === 'number') {
    let nested: object = {};
    for (let level = 1; level < $nest; level++) nested = { a: nested };
    return nested;
  }
  if ($cycle === true) {
    const cycle: Record<string, unknown> = {};
    cycle['itself'] = cycle;
    return cycle;
  }
  return Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, meant(value)]));
}

it('does not take a fixture for something it is not', () => {
  expect(meant({ a: [{ $repeat: ['ab', 2] }], at: { $date: SENT } })).toEqual({
    a: ['abab'],
    at: new Date(SENT),
  });
});
