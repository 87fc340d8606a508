import { describe, expect, it } from 'vitest';
import { handClock } from '../../test/support/clock.ts';
import { type Breach, itNotices } from '../../test/support/invariants.ts';
import { Fifo } from '../model/containers.ts';
import { InvariantError } from '../model/invariant.ts';
import {
  afterBreakerClosed,
  afterBreakerOpened,
  afterRelease,
  BacklogLoader,
  type BacklogState,
  batchOf,
  checkBacklog,
  EMPTY_BACKLOG,
  roomForNew,
  roomToClaim,
} from './backlog.ts';
import {
  afterFailedRound,
  type CircuitBreaker,
  CLOSED_BREAKER,
  checkBreaker,
  EndpointRest,
  FAILURE_THRESHOLD,
  type FailedRound,
  probeDelay,
} from './circuit-breaker.ts';
import { afterFailure, afterSuccess, HealthTracker, INITIAL_CONCURRENCY, MAX_CONCURRENCY } from './health.ts';
import { LaneMemory } from './lane-memory.ts';
import {
  DestinationRateLimiter,
  limitsOfShare,
  nextRequestAt,
  shareOf,
  WHOLE_SHARE,
} from './rate-limiter.ts';
import { ResultCounts, ResultWriter } from './result-writer.ts';
import { backoff, decide, outageFrom } from './retry-policy.ts';
import { RoundsInFlight, sendRound, takeBatch } from './round.ts';

const OUTAGE = { since: 0 };
const OPEN = { state: 'open', failingSince: 1, openedAt: 2, failedProbes: 0, isRest: false, nextProbeAt: 3 };
const FAILED: FailedRound = { positions: [1], nth: 1, begun: 1, isProbe: false, now: 0, random: 0.5 };

const breaker = (fields: object) => () => checkBreaker(fields as CircuitBreaker);
const backlog =
  (fields: Partial<BacklogState>, state: CircuitBreaker['state'] = 'closed') =>
  () =>
    checkBacklog({ ...EMPTY_BACKLOG, ...fields }, state);

const BREAKERS: readonly Breach[] = [
  [
    'a round that has failed has deliveries',
    () => afterFailedRound(CLOSED_BREAKER, { ...FAILED, positions: [] }),
  ],
  ['a round that has failed had begun', () => afterFailedRound(CLOSED_BREAKER, { ...FAILED, nth: 2 })],
  ['a round that has failed had begun', () => afterFailedRound(CLOSED_BREAKER, { ...FAILED, nth: 0 })],
  ['the back-off of probes has not doubled fewer times than none', () => probeDelay(-1, 0.5)],
  ['the lot of a probe is from 0 to below 1', () => probeDelay(0, 1)],
  ['a closed breaker waits for no probe', breaker({ state: 'closed', nextProbeAt: 1 })],
  ['a closed breaker is in no outage', breaker({ state: 'closed', failingSince: 1 })],
  [
    'a breaker is open after as many failures as open it',
    breaker({ state: 'closed', streak: { failures: Array(FAILURE_THRESHOLD) } }),
  ],
  [
    'a relapse goes on with a back-off that there was',
    breaker({ state: 'closed', relapse: { until: 1, failedProbes: -1 } }),
  ],
  ['a breaker that is not closed counts no failures', breaker({ ...OPEN, streak: {} })],
  ['a breaker that is not closed waits for no relapse', breaker({ ...OPEN, relapse: {} })],
  ['an outage begins before its breaker opens', breaker({ ...OPEN, failingSince: 3 })],
  ['an outage has had no fewer failed probes than none', breaker({ ...OPEN, failedProbes: -1 })],
  ['an outage is a rest or is none', breaker({ ...OPEN, isRest: undefined })],
  ['an open breaker knows when it probes', breaker({ ...OPEN, nextProbeAt: undefined })],
  ['a breaker that probes waits for no other probe', breaker({ ...OPEN, state: 'probing' })],
  [
    'an endpoint rests until a time',
    () =>
      new EndpointRest().endRequest(
        { kind: 'retryable', reason: 'status_429', status: 429, notBefore: Number.NaN },
        false,
        0,
      ),
  ],
];

describe('a circuit breaker', () => itNotices(BREAKERS));

const BACKLOGS: readonly Breach[] = [
  [
    'a breaker opens outside of an outage',
    () => afterBreakerOpened({ ...EMPTY_BACKLOG, phase: 'outage' }, OUTAGE, 0),
  ],
  ['a breaker closes at the end of an outage', () => afterBreakerClosed(EMPTY_BACKLOG)],
  ['a release ends in the phase in which it began', () => afterRelease(EMPTY_BACKLOG, 0)],
  [
    'a backlog is in an outage exactly while the breaker is not closed',
    backlog({ phase: 'outage', outage: OUTAGE }),
  ],
  ['a backlog in an outage knows since when', backlog({ phase: 'outage' }, 'open')],
  ['a release is that of an outage', backlog({ phase: 'releasing' })],
  ['a worker that has caught up is in no outage', backlog({ outage: OUTAGE })],
  ['what waits on disk is due at a time', backlog({ nextDueAt: Number.NaN })],
  ['nothing was noted that is due before the first on disk', backlog({ nextDueAt: 2, notedSinceClaim: 1 })],
  ['a worker holds no fewer deliveries than none', () => roomForNew(-1, { held: 0 })],
  ['a worker holds no more deliveries than all of them together', () => roomForNew(2, { held: 1 })],
  [
    'a worker may always have a delivery in flight',
    () => roomToClaim({ held: 0, isBehind: false, limit: 0 }, { held: 0 }),
  ],
  ['a claim asks for as many as one may take', () => loader({}).claim(0, 0)],
  [
    'a claim gives no more than was asked for',
    () => loader({ claim: async () => ({ deliveries: [{}, {}] }) }).claim(1, 0),
  ],
  ['no fewer deliveries expire than none', () => loader({ expire: async () => -1 }).expire(0)],
  [
    'no fewer deliveries become due than none',
    () => loader({ stats: async () => [], makeDue: async () => -1 }).release(),
  ],
  [
    'each claimed delivery has its event, or why it has none',
    () => batchOf([{ set: 1, delivery: { position: 1, rounds: 0 } }], [], undefined, 0),
  ],
];

function loader(deliveryQueue: object): BacklogLoader {
  const clock = handClock(0);
  return new BacklogLoader({ id: 1, name: 'crm' }, { deliveryQueue, clock } as never);
}

describe('a backlog', () => {
  itNotices(BACKLOGS);

  it('does not take a broken invariant for a store that is to be asked again', async () => {
    const broken = new InvariantError('two and two are four');
    await expect(loader({}).backOff(broken, 'claim')).rejects.toBe(broken);
  });
});

const RETRYABLE = { kind: 'retryable', reason: 'timeout' } as const;
const NEW = { position: 1, rounds: 0 };

function decided(outcome: object, { rounds = 0, now = 0, place = 0, random = 0.5 } = {}): () => unknown {
  const outcomes = [{ place, outcome: outcome as typeof RETRYABLE }];
  return () => decide({ ...NEW, rounds }, { outcomes, now, settingsVersion: 1, random });
}

describe('the decision about a delivery', () =>
  itNotices([
    ['a delivery was tried no fewer times than none', decided(RETRYABLE, { rounds: -1 })],
    ['a retry is due at a time', decided(RETRYABLE, { now: Number.NaN })],
    // The bit of a place that no destination has.
    ['a retry has an endpoint to ask', decided(RETRYABLE, { place: 31 })],
    ['a dead delivery has a reason', decided({ kind: 'refused', reason: '' })],
    ['a dropped delivery has a reason', decided({ kind: 'dropped', reason: '' })],
    ['a back-off follows a round', () => backoff(0, 0.5)],
    ['the lot of a delay is from 0 to below 1', () => backoff(1, 1)],
    ['an outage begins at a time', () => outageFrom(Number.NaN, true)],
  ]));

const limiter = () => new DestinationRateLimiter(handClock(0), () => undefined);

function limited(...steps: readonly ((of: DestinationRateLimiter) => void)[]): () => void {
  return () => {
    const of = limiter();
    for (const step of steps) step(of);
  };
}

const began = (place: number, isFirst: boolean) => (of: DestinationRateLimiter) =>
  of.requestBegan(place, isFirst);
const ended = (place: number, isLast: boolean) => (of: DestinationRateLimiter) =>
  of.requestEnded(place, isLast, false);

describe('the limits of a destination', () =>
  itNotices([
    ['this node is one of those that deliver', () => shareOf({ id: 1 }, { nodes: 0, place: 0 })],
    ['a node has a place among those that deliver', () => shareOf({ id: 1 }, { nodes: 2, place: 2 })],
    ['a rate limit lets something through', () => limitsOfShare({ rateLimit: 0 }, WHOLE_SHARE)],
    ['a concurrency is of one request at least', () => limitsOfShare({ concurrency: 0 }, WHOLE_SHARE)],
    ['a request follows the first of its round', limited(began(0, false))],
    ['no more requests end than have begun', limited(ended(0, true))],
    ['no more requests of an endpoint end than have begun', limited(began(0, true), ended(1, true))],
    [
      'no more rounds lose their last request than had a first',
      limited(began(0, true), began(1, false), ended(0, true), ended(1, true)),
    ],
    ['an open round has an open request', limited(began(0, true), ended(0, false))],
    ['a rate is of more than nothing', () => nextRequestAt(0, 0, 0)],
    ['the next request is allowed at a time', () => nextRequestAt(Number.NaN, 0, 1)],
  ]));

const ACCEPTED = { place: 0, outcome: { kind: 'accepted', reason: 'status_200', status: 200 } } as const;

function report(fields: object, round: object = {}): () => unknown {
  return () => {
    const tracker = new HealthTracker();
    const ticket = { ...tracker.beginRound(false), ...round };
    const of = { positions: [1], outcomes: [ACCEPTED], restsUntil: undefined, now: 0, random: 0.5 };
    return tracker.record({ round: ticket, latencyMs: 1, unreadMs: 0, ...of, ...fields });
  };
}

describe('the health of a worker', () =>
  itNotices([
    ['a round that ends is one that has begun', report({}, { nth: 2 })],
    ['a round was sent under a limit that allowed it', report({}, { limit: 0 })],
    ['an answer takes no less than no time', report({ latencyMs: -1 })],
    ['an answer waits no less than no time to be read', report({ unreadMs: Number.NaN })],
    [
      'a concurrency is from one to the most',
      () => afterSuccess({ ...INITIAL_CONCURRENCY, limit: 0 }, false),
    ],
    [
      'as many successes as the concurrency raise it',
      () => afterSuccess({ ...INITIAL_CONCURRENCY, successes: 16 }, false),
    ],
    [
      'a concurrency doubles up to one it may have',
      () => afterSuccess({ ...INITIAL_CONCURRENCY, doublesUntil: MAX_CONCURRENCY + 1 }, false),
    ],
    [
      'no round is sent beyond the most that may be in flight',
      () => afterFailure(INITIAL_CONCURRENCY, MAX_CONCURRENCY + 1),
    ],
  ]));

const TARGET = { place: 0, label: 'a.example', address: 'http://a.example/' };
const LANE = { id: 1, version: 1, targets: [TARGET] } as never;
const READY = { set: 1, delivery: NEW, serialized: { event: {}, arrivedAt: 0 }, source: 1 } as never;
const TOLD = { ...ACCEPTED, latencyMs: 1, answer: '' };

/** Sends a round of one delivery to one endpoint; `answer` plays the sender. */
function round(answer: (told: (target: object, outcomes: readonly object[]) => void) => void): () => void {
  return () => {
    const broken: unknown[] = [];
    const dependencies = {
      sender: { send: (_: unknown, told: never) => answer(told) },
      clock: handClock(0),
      openRequests: { isBusy: () => false, requestBegan: () => {}, requestEnded: () => {} },
      endpointAt: () => undefined,
      onBroken: (error: unknown) => broken.push(error),
    };
    sendRound([READY], LANE, dependencies as never, () => {});
    throw broken[0];
  };
}

function rounds(...steps: readonly ((of: RoundsInFlight) => void)[]): () => void {
  return () => {
    const of = new RoundsInFlight();
    for (const step of steps) step(of);
  };
}

const waiting = () => {
  const queue = new Fifo<never>();
  queue.push(READY);
  return queue;
};

describe('a round', () =>
  itNotices([
    ['a round is sent of a delivery at least', () => sendRound([], LANE, {} as never, () => {})],
    [
      'no target answers a round twice',
      round((told) => {
        told(TARGET, [TOLD]);
        told(TARGET, [TOLD]);
      }),
    ],
    ['a target answers for each delivery of its round', round((told) => told(TARGET, []))],
    ['a target that answers was asked', round((told) => told({ ...TARGET, place: 3 }, [TOLD]))],
    [
      'a batch is taken from deliveries that wait',
      () => takeBatch(new Fifo<never>(), LANE, { most: () => ({ events: 1, bytes: 1 }) } as never),
    ],
    [
      'a sender takes one event at least',
      () => takeBatch(waiting(), LANE, { most: () => ({ events: 0, bytes: 1 }) } as never),
    ],
    ['a round begins with a delivery', rounds((of) => of.begin(0))],
    ['no more rounds end than have begun', rounds((of) => of.end(0, 1))],
    [
      'a round in flight has a delivery',
      rounds(
        (of) => of.begin(1),
        (of) => of.begin(1),
        (of) => of.end(0, 2),
      ),
    ],
    [
      'no round began after a mark that is still to come',
      rounds(
        (of) => of.begin(1),
        (of) => of.end(1, 1),
      ),
    ],
    [
      'no more rounds of a mark end than it met',
      rounds(
        (of) => of.mark(),
        (of) => of.begin(1),
        (of) => of.end(0, 1),
      ),
    ],
    [
      'a round that a mark met is in flight',
      rounds(
        (of) => of.begin(1),
        (of) => of.mark(),
        (of) => of.end(1, 1),
      ),
    ],
  ]));

function memory(work: (lane: LaneMemory, total: { held: number }) => void): () => void {
  return () => {
    const total = { held: 0 };
    work(new LaneMemory(total), total);
  };
}

describe('the memory of a lane', () =>
  itNotices([
    ['no more room is given back than was reserved', memory((lane) => lane.endReservation(1))],
    [
      'a lane reads one claim at a time',
      memory((lane) => {
        lane.claim(1);
        lane.claim(1);
      }),
    ],
    ['a lane holds no fewer deliveries than none', memory((lane) => lane.add(-1))],
    [
      'a lane holds a part of what all of them hold',
      memory((lane, total) => {
        lane.add(2);
        total.held = 0;
        lane.add(-1);
      }),
    ],
    [
      'what a lane holds is reserved, being read, queued or in flight',
      memory((lane) => {
        lane.reserve(2);
        lane.check(1, 0);
      }),
    ],
  ]));

/** Writes a result, and throws what is found wrong with the store. */
async function written(ignored: number): Promise<void> {
  const clock = handClock(0);
  const found: unknown[] = [];
  const writer = new ResultWriter({
    clock,
    settle: async () => ({ ignored }),
    logger: { error: () => {}, warn: () => {} } as never,
    onWritten: () => {},
    onBroken: (error) => found.push(error),
  });
  writer.add({} as never);
  await writer.flush().catch(() => undefined);
  throw found[0];
}

describe('the results', () =>
  itNotices([
    ['a store ignores a part of the results it is given', () => written(2)],
    ['a group of results has one at least', () => new ResultCounts().end(0)],
    ['no more results are written than were added', () => new ResultCounts().end(1)],
  ]));
