import { describe, expect, it } from 'vitest';
import { DESTINATION_STATES } from '../model/destination.ts';
import { HOUR, MINUTE, SECOND } from '../model/time.ts';
import { destinationStateOf, RefusalTracker, type StateFacts } from './destination-state.ts';

const WALL = Date.UTC(2026, 0, 1);

/** A tracker with a clock. Letters are deliveries that end a second apart: `a` accepted, `x` died. */
function tracked() {
  const tracker = new RefusalTracker();
  let now = 1000 * HOUR;
  const play = (deliveries: string, pause = SECOND) => {
    for (const one of deliveries) {
      now += pause;
      if (one === 'a') tracker.accepted(now);
      else tracker.died(now, WALL + now);
    }
    return tracker.since !== undefined;
  };
  return { tracker, play, pass: (duration: number) => (now += duration) };
}

describe('a destination refuses', () => {
  it('from the third death in a row, however far apart', () => {
    const { play } = tracked();
    expect(play('aaaaaaaaxx', 10 * HOUR)).toBe(false);
    expect(play('x', 10 * HOUR)).toBe(true);
  });

  it('from three deaths in five minutes that are a hundredth of what ended', () => {
    const { play } = tracked();
    expect(play(`x${'a'.repeat(100)}x${'a'.repeat(100)}`, 100)).toBe(false);
    expect(play('x', 100)).toBe(true);
    const { play: playRare } = tracked();
    expect(playRare(`x${'a'.repeat(150)}`.repeat(10), 100)).toBe(false);
  });

  it('not by deaths that lie further apart than five minutes', () => {
    const { play, pass } = tracked();
    for (let nth = 0; nth < 20; nth++) {
      expect(play('xaa')).toBe(false);
      pass(5 * MINUTE);
    }
  });

  it('until three are accepted in a row, where none was in between', () => {
    const { play } = tracked();
    expect(play('xxxxx')).toBe(true);
    expect(play('aa')).toBe(true);
    expect(play('xaa')).toBe(true);
    expect(play('aaa')).toBe(false);
    expect(play('aaaa')).toBe(false);
  });

  it('all the time where some are accepted and some die, and until five minutes below a hundredth', () => {
    const { play } = tracked();
    expect(play('xaaaaaaxaaaaaaxaaaaaa')).toBe(true);
    for (let nth = 0; nth < 100; nth++) expect(play('aaaaxaaaaaa')).toBe(true);
    expect(play('a'.repeat(290))).toBe(true);
    expect(play('a'.repeat(400))).toBe(false);
  });

  it('on, while nothing is sent', () => {
    const { play, pass } = tracked();
    play('axxxaxaxaxaax');
    pass(10 * HOUR);
    expect(play('')).toBe(true);
    expect(play('aa')).toBe(true);
    expect(play('a')).toBe(false);
  });

  it('on, where the program was started again', () => {
    const { tracker, play } = tracked();
    tracker.restore(WALL);
    expect(play('aa')).toBe(true);
    expect(play('a')).toBe(false);
  });
});

describe('the state of a destination', () => {
  const good: StateFacts = { enabled: true, isFed: true, wasAsked: true };
  const bad: StateFacts = {
    hasFailed: true,
    ...{ enabled: false, paused: true, failingSince: 1, refusingSince: 1, isFed: false, wasAsked: false },
  };

  it('is the first that holds', () => {
    const repairs: Partial<StateFacts>[] = [
      {},
      { hasFailed: false },
      { enabled: true },
      { paused: false },
      { failingSince: undefined },
      { refusingSince: undefined },
      { isFed: true },
      { wasAsked: true },
    ];
    let facts = bad;
    const states = repairs.map((repair) => {
      facts = { ...facts, ...repair };
      return destinationStateOf(facts);
    });
    expect(states).toEqual([...DESTINATION_STATES]);
    expect(destinationStateOf(good)).toBe('healthy');
  });
});
