import fc from 'fast-check';
import { expect, test } from 'vitest';
import { AdmissionController, type InFlightRequest } from './admission.ts';

function inFlightOf(requests: number, bytes: number) {
  const clock = {
    time: 0,
    now: () => 0,
    monotonic: () => clock.time,
    after: () => () => {},
    steps: () => [{ at: 0, ahead: 0 }],
  };
  const inFlight = new AdmissionController({ requests, bytes }, clock);
  const cut: InFlightRequest[] = [];
  const place = (): InFlightRequest => {
    const made: InFlightRequest = {
      bytes: 0,
      isUploading: false,
      older: undefined,
      younger: undefined,
      startedAt: clock.time,
      evict: () => {
        cut.push(made);
        inFlight.release(made);
      },
    };
    return made;
  };
  return { clock, inFlight, cut, place };
}

test('a body that waits for us keeps its place however long it takes', () => {
  const { clock, inFlight, cut, place } = inFlightOf(1, 100);
  const waiting = place();
  inFlight.admit(waiting);
  inFlight.bodyReceived(waiting);
  clock.time = 1_000_000;
  expect(inFlight.admit(place())).toBe(false);
  expect(cut).toEqual([]);
});

test('a body never makes room for itself', () => {
  const { clock, inFlight, cut, place } = inFlightOf(2, 100);
  const only = place();
  inFlight.admit(only);
  expect(inFlight.reserve(only, 100)).toBe(true);
  clock.time = 10_000;
  expect(inFlight.reserve(only, 1)).toBe(false);
  expect([cut, inFlight.bytes]).toEqual([[], 100]);
});

test('several make room for one that needs much', () => {
  const { clock, inFlight, cut, place } = inFlightOf(10, 100);
  const slow = Array.from({ length: 4 }, place);
  for (const each of slow) inFlight.admit(each) && inFlight.reserve(each, 25);
  clock.time = 5000;
  const next = place();
  inFlight.admit(next);
  expect(inFlight.reserve(next, 60)).toBe(true);
  expect(cut).toEqual(slow.slice(0, 3));
  expect([inFlight.requests, inFlight.bytes]).toEqual([2, 85]);
});

test('whatever happens, the sums are those of the places, and within the bounds', () => {
  const steps = fc.array(
    fc.record({
      what: fc.constantFrom('enter', 'grow', 'arrived', 'leave', 'time'),
      which: fc.nat(20),
      bytes: fc.nat(60),
    }),
    { maxLength: 200 },
  );
  fc.assert(
    fc.property(steps, (list) => {
      const { clock, inFlight, cut, place } = inFlightOf(5, 100);
      let inside: InFlightRequest[] = [];
      for (const { what, which, bytes } of list) {
        const chosen = inside[which % Math.max(inside.length, 1)];
        if (what === 'time') clock.time += bytes * 100;
        else if (what === 'enter') {
          const next = place();
          if (inFlight.admit(next)) inside.push(next);
        } else if (chosen !== undefined && what === 'grow') inFlight.reserve(chosen, bytes);
        else if (chosen !== undefined && what === 'arrived') inFlight.bodyReceived(chosen);
        else if (chosen !== undefined && what === 'leave') {
          inFlight.release(chosen);
          inside = inside.filter((each) => each !== chosen);
        }
        inside = inside.filter((each) => !cut.includes(each));
        expect(inFlight.requests).toBe(inside.length);
        expect(inFlight.bytes).toBe(inside.reduce((sum, each) => sum + each.bytes, 0));
        expect(inFlight.requests).toBeLessThanOrEqual(5);
        expect(inFlight.bytes).toBeLessThanOrEqual(100);
      }
    }),
  );
});
