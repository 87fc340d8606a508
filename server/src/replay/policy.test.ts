import { describe, expect, it } from 'vitest';
import { laneIdsIn } from '../../test/support/lanes.ts';
import type { Destination } from '../model/destination.ts';
import type { Replay } from '../model/replay.ts';
import { SECOND } from '../model/time.ts';
import { MAX_AHEAD, nextStep as nextStepOf, pauseAfter, ThroughputMeter } from './policy.ts';
import { CURSOR_END } from './selection.ts';

const endpoints = [1, 2].map((n) => ({ url: `http://e${n}/`, headers: {} }));
const crm: Destination = {
  ...{ id: 3, name: 'crm', type: 'webhooks', sources: ['site'], enabled: true, version: 1 },
  settings: { endpoints, format: 'documented' },
};
const each: Destination = { ...crm, success: 'each' };
const replay: Replay = {
  ...{ id: 'r', destination: 'crm', from: 0, to: 9, rate: 1000, state: 'running', createdAt: 0, by: 'ci' },
  preview: { count: 5, bytes: 500, isExact: true },
};
const progress = (pending: readonly [number, number][] = [], cursor = 4) => ({
  ...{ cursor, events: 1, pending: new Map(pending) },
});

/** The next step, with the lanes of the destination. */
function nextStep(of: Replay, to: Destination | undefined, made: ReturnType<typeof progress>) {
  return nextStepOf(of, to, made, to === undefined ? [] : laneIdsIn(to));
}

describe('a replay', () => {
  it.each([
    [1, 1],
    [7, 2],
    [1000, 200],
    [10_000, 500],
  ])('of %d events a second enqueues slices of %d', (rate, max) => {
    expect(nextStep({ ...replay, rate }, crm, progress())).toEqual({ kind: 'enqueue', max });
  });

  it('waits while its destination is paused or disabled, and while that is far behind', () => {
    const waits = (reason: string) => ({ kind: 'wait', reason });
    expect(nextStep(replay, { ...crm, paused: true }, progress())).toEqual(waits('destination_paused'));
    expect(nextStep(replay, { ...crm, enabled: false }, progress())).toEqual(waits('destination_disabled'));
    expect(nextStep(replay, crm, progress([[3, MAX_AHEAD - 1]])).kind).toBe('enqueue');
    expect(nextStep(replay, crm, progress([[3, MAX_AHEAD]]))).toEqual({
      kind: 'wait',
      reason: 'destination_behind',
    });
  });

  it('waits for the fastest endpoint where each is a delivery of its own', () => {
    const [one, two] = laneIdsIn(each);
    expect(nextStep(replay, each, progress([[one!, MAX_AHEAD * 2]])).kind).toBe('enqueue');
    expect(
      nextStep(
        replay,
        each,
        progress([
          [one!, MAX_AHEAD],
          [two!, MAX_AHEAD],
        ]),
      ).kind,
    ).toBe('wait');
  });

  it('ends where its range ends, and when its destination is gone', () => {
    expect(nextStep(replay, crm, progress([[3, MAX_AHEAD]], CURSOR_END))).toEqual({
      kind: 'end',
      state: 'done',
    });
    expect(nextStep(replay, undefined, progress())).toEqual({
      ...{ kind: 'end', state: 'failed', reason: 'destination_removed' },
    });
  });

  it('pauses as its rate requires, and at least as long as the slice took', () => {
    expect(pauseAfter(200, 1000, 30)).toBe(170);
    expect(pauseAfter(200, 1000, 150)).toBe(150);
    expect(pauseAfter(0, 1000, 20)).toBe(20);
    expect(pauseAfter(1, 1, 0)).toBe(1000);
  });
});

it('measures the recent throughput, and knows none at first or while nothing grows', () => {
  const speed = new ThroughputMeter();
  speed.record(0, 0);
  speed.record(500, SECOND);
  expect(speed.perSecond(SECOND)).toBeUndefined();
  speed.record(1000, 2 * SECOND);
  expect(speed.perSecond(2 * SECOND)).toBe(500);
  expect(speed.perSecond(4 * SECOND)).toBe(250);
  for (let second = 3; second <= 60; second++) speed.record(1000 + (second - 2) * 10, second * SECOND);
  expect(speed.perSecond(60 * SECOND)).toBeCloseTo(10);
  const idle = new ThroughputMeter();
  idle.record(7, 0);
  idle.record(7, 10 * SECOND);
  expect(idle.perSecond(10 * SECOND)).toBeUndefined();
});
