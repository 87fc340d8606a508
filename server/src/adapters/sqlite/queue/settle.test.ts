import { DatabaseSync } from 'node:sqlite';
import { beforeEach, describe, expect, it } from 'vitest';
import type { Attempt, Outcome } from '../../../model/delivery.ts';
import type { Position } from '../../../model/event.ts';
import type { DeliveryResult } from '../../../ports/delivery-queue.ts';
import { ROW_SPAN } from '../../encoding/results.ts';
import { LedgerTable } from '../ledger-table.ts';
import { migrate } from '../schema.ts';
import { DeadLetterTable } from './dead-letters.ts';
import { PendingTable } from './pending.ts';
import {
  DeliverySettler,
  encodeResults,
  FailedAttempts,
  isFewResults,
  SuccessfulAttempts,
} from './settle.ts';

const CRM = 7;
const WAREHOUSE = 8;
const URL = 'https://crm.example/hook';
const OTHER_URL = 'https://warehouse.example/hook';
const STARTED = 1_700_000_000_000;

const ACCEPTED: Outcome = { kind: 'accepted', reason: 'status_200', status: 200 };
const REFUSED: Outcome = { kind: 'refused', reason: 'status_400', status: 400 };
const CLOSED: Outcome = { kind: 'retryable', reason: 'connection_closed' };

const request = (outcome: Outcome, endpoint = URL): Attempt => ({
  ...{ endpoint, startedAt: STARTED, latencyMs: 12, outcome },
});

let database: DatabaseSync;
let successful: SuccessfulAttempts;
let failed: FailedAttempts;

beforeEach(() => {
  database = new DatabaseSync(':memory:');
  migrate(database);
  successful = new SuccessfulAttempts(database);
  failed = new FailedAttempts(database);
});

type Visited = Parameters<Parameters<SuccessfulAttempts['visitBetween']>[3]>;

/** Requests of either table from a position on and below another. */
function between(
  table: Pick<SuccessfulAttempts, 'visitBetween'>,
  [from, below]: readonly [Position, Position],
  destinations: readonly number[],
): Visited[] {
  const visited: Visited[] = [];
  table.visitBetween(from, below, new Set(destinations), (...one) => visited.push(one));
  return visited;
}

describe('accepted requests', () => {
  /** Writes a request for each position, together. */
  function write(destination: number, positions: readonly Position[], endpoint = URL): void {
    for (const position of positions)
      successful.add(destination, endpoint, { position, startedAt: STARTED, latencyMs: 12, status: 200 });
    successful.write();
  }

  const crm = { destination: CRM, attempt: request(ACCEPTED) };
  const warehouse = { destination: WAREHOUSE, attempt: request(ACCEPTED, OTHER_URL) };

  it('are found once by the position of their event, near ones and far ones in any order', () => {
    const far = 10 * ROW_SPAN;
    write(CRM, [far, far + 1, far + 5]);
    write(WAREHOUSE, [far + 1], OTHER_URL);
    write(CRM, [1, 2]);
    const found = successful.at([far + 5, 2, far + 1, 3, far, 1]);
    expect(Object.fromEntries(found)).toEqual({
      ...{ 1: [crm], 2: [crm], 3: [] },
      ...{ [far]: [crm], [far + 1]: [crm, warehouse], [far + 5]: [crm] },
    });
  });

  it('are visited within the positions and for the destinations that are asked for', () => {
    write(CRM, [1, 2, 3, 4, 5]);
    // In a row that destinations share.
    successful.add(CRM, URL, { position: 12, startedAt: STARTED, latencyMs: 1, status: 200 });
    write(WAREHOUSE, [12, 13], OTHER_URL);
    expect(between(successful, [2, 5], [CRM])).toEqual([2, 3, 4].map((position) => [CRM, position]));
    expect(between(successful, [2, 13], [WAREHOUSE])).toEqual([[WAREHOUSE, 12]]);
    expect(between(successful, [0, 99], [9])).toEqual([]);
    expect(between(successful, [0, 99], [])).toEqual([]);
  });
});

describe('failed requests', () => {
  const of = (position: Position, attempts: readonly Attempt[]): DeliveryResult => ({
    ...{ set: 1, destination: CRM, position, attempts, decision: { kind: 'delivered' } },
  });

  it('are kept with what was answered, and without those that were accepted beside them', () => {
    const refused = { ...request(REFUSED), answer: 'no such field' };
    failed.insert(of(3, [refused, request(CLOSED, OTHER_URL), request(ACCEPTED)]));
    expect(failed.of(CRM, 3)).toEqual([refused, request(CLOSED, OTHER_URL)]);
    expect(failed.of(WAREHOUSE, 3)).toEqual([]);
  });

  it('are visited within the positions and for the destinations that are asked for', () => {
    for (const position of [1, 2, 3]) failed.insert(of(position, [request(REFUSED)]));
    failed.insert({ ...of(2, [request(REFUSED)]), destination: WAREHOUSE });
    expect(between(failed, [2, 3], [CRM])).toEqual([[CRM, 2]]);
    expect(between(failed, [1, 4], [WAREHOUSE, CRM])).toHaveLength(4);
    expect(between(failed, [0, 99], [])).toEqual([]);
  });

  it('are gone when their event is erased', () => {
    for (const position of [1, 2]) failed.insert(of(position, [request(REFUSED)]));
    failed.erase([1]);
    expect(failed.of(CRM, 1)).toEqual([]);
    expect(failed.of(CRM, 2)).toHaveLength(1);
  });
});

const delivered = (position: Position, attempts: readonly Attempt[]): DeliveryResult => ({
  ...{ set: 1, destination: CRM, position, attempts, decision: { kind: 'delivered' } },
});

describe('results on their way to the writer', () => {
  it('are numbers where one request was accepted or none was made, and else objects', () => {
    const others = [
      delivered(3, [request(ACCEPTED), request(REFUSED)]),
      delivered(4, [request(REFUSED)]),
      delivered(5, [request(ACCEPTED), request(ACCEPTED)]),
      { ...delivered(6, [request(ACCEPTED)]), decision: { kind: 'dead', reason: 'status_400' } as const },
    ];
    const plain = [
      delivered(0, [request(ACCEPTED)]),
      delivered(1, [request(ACCEPTED, OTHER_URL)]),
      delivered(2, [request(ACCEPTED)]),
      delivered(7, []),
    ];
    const message = encodeResults([...plain, ...others]);
    expect(message.others).toEqual(others);
    expect(message.endpoints).toEqual([URL, OTHER_URL]);
    expect(Array.from(message.delivered)).toEqual([
      ...[1, 0, CRM, 0, STARTED, 12, 200],
      ...[1, 1, CRM, 1, STARTED, 12, 200],
      ...[1, 2, CRM, 0, STARTED, 12, 200],
      ...[1, 7, CRM, -1, 0, 0, 0],
    ]);
  });

  it('are few up to 64, when all are delivered by one request', () => {
    const encoded = (n: number, more: readonly DeliveryResult[] = []) =>
      encodeResults([...Array.from({ length: n }, (_, nth) => delivered(nth, [request(ACCEPTED)])), ...more]);
    expect(isFewResults(encoded(64))).toBe(true);
    expect(isFewResults(encoded(65))).toBe(false);
    expect(isFewResults(encoded(1, [delivered(1, [request(REFUSED), request(ACCEPTED)])]))).toBe(false);
  });
});

it('a delivery that one endpoint refused and another accepted counts once, with both requests', () => {
  const ledger = new LedgerTable(database);
  const pending = new PendingTable(database, { epoch: 1, ledger, damage: {} as never });
  const settler = new DeliverySettler({
    ...{ pending, ledger, successfulAttempts: successful, failedAttempts: failed },
    ...{ deadLetters: new DeadLetterTable(database, {} as never), keys: { newest: STARTED } },
  });
  ledger.add('destination', CRM, 'owed', 2);
  const set = pending.insertHeld(CRM, [1, 2], STARTED);
  const both = [request(REFUSED, OTHER_URL), request(ACCEPTED)];
  const results = [
    { ...delivered(1, both), set },
    { ...delivered(2, [request(ACCEPTED)]), set },
  ];
  expect(settler.settle(encodeResults(results))).toEqual({ ignored: 0 });
  ledger.write();
  expect(ledger.total('destination', 'delivered')).toBe(2);
  expect(failed.of(CRM, 1)).toEqual([request(REFUSED, OTHER_URL)]);
  const accepted = [{ destination: CRM, attempt: request(ACCEPTED) }];
  expect([...successful.at([1, 2]).values()]).toEqual([accepted, accepted]);
  expect(settler.settle(encodeResults(results))).toEqual({ ignored: 2 });
});
