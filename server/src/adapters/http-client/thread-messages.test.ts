import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { HttpResult, OutboundRequest } from '../../ports/http-client.ts';
import { AnswerBatch, RequestBatch, readAnswers, readRequests } from './thread-messages.ts';

const FIXED = [{ 'User-Agent': 'Millrace/1.0' }, { 'X-Team': '"ÿ' }];

const REQUESTS: readonly Omit<OutboundRequest, 'waited'>[] = [
  {
    url: 'https://a.example/é?x=1',
    fixedHeaders: FIXED[0]!,
    headers: { 'X-A': '"ÿ' },
    body: Buffer.from('{}'),
    timeout: 5000,
    pool: 1,
  },
  { url: 'no url \ud800', headers: {}, body: Buffer.alloc(0), timeout: 100, pool: -1 },
  {
    url: 'http://b.example/',
    fixedHeaders: FIXED[1]!,
    headers: { __proto__x: '' },
    body: Buffer.from([0, 255, 10]),
    timeout: 1,
    pool: 9,
  },
  {
    url: 'http://b.example/',
    fixedHeaders: FIXED[0]!,
    headers: {},
    body: Buffer.alloc(1),
    timeout: 1,
    pool: 9,
  },
];

test('requests cross as they are, with the time that it took', async () => {
  const batch = new RequestBatch();
  for (const [nth, request] of REQUESTS.entries()) batch.add(nth + 7, request);
  await sleep(30);
  const message = structuredClone(batch.take());
  expect([batch.size, batch.bytes]).toEqual([0, 0]);
  await sleep(30);
  const read: [number, OutboundRequest][] = [];
  readRequests(message, (id, request) => read.push([id, request]));
  expect(read).toEqual(REQUESTS.map((request, nth) => [nth + 7, { ...request, waited: expect.any(Number) }]));
  expect(read[0]![1].waited).toBeGreaterThan(55);
  // One object for all, as before it crossed: the client prepares it once.
  expect(read[3]![1].fixedHeaders).toBe(read[0]![1].fixedHeaders);
});

test('answers cross as they are', () => {
  const answers: HttpResult[] = [
    { kind: 'answered', status: 200, body: '', latencyMs: 1.25 },
    { kind: 'answered', status: 503, body: 'down', retryAfter: '7', latencyMs: 3 },
    { kind: 'failed', reason: 'timeout', detail: 'no answer within 5000 ms', latencyMs: 5000.01 },
    { kind: 'answered', status: 404, body: '', latencyMs: 2 },
  ];
  const batch = new AnswerBatch();
  for (const [nth, answer] of answers.entries()) batch.add(nth, answer);
  const read = new Map<number, HttpResult>();
  readAnswers(structuredClone(batch.take()), (id, answer) => read.set(id, answer));
  expect(batch.size).toBe(0);
  expect([...read].sort(([a], [b]) => a - b).map(([, answer]) => answer)).toEqual(answers);
});
