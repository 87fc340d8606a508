import fc from 'fast-check';
import { expect, test } from 'vitest';
import { realTurns } from '../../test/support/clock.ts';
import { AdmissionController, type InFlightRequest } from './admission.ts';

function admissionOf(requests: number, bytes: number) {
  const clock = {
    time: 0,
    now: () => 0,
    monotonic: () => clock.time,
    after: () => () => {},
    steps: () => [{ at: 0, ahead: 0 }],
    ...realTurns,
  };
  const admission = new AdmissionController({ requests, bytes }, clock);
  const cut: InFlightRequest[] = [];
  const requestOf = (): InFlightRequest => {
    const made: InFlightRequest = {
      bytes: 0,
      list: undefined,
      previous: undefined,
      next: undefined,
      startedAt: clock.time,
      evict: () => {
        cut.push(made);
        admission.release(made);
      },
    };
    return made;
  };
  return { clock, admission, cut, requestOf };
}

test('a body that waits for us keeps its place however long it takes', () => {
  const { clock, admission, cut, requestOf } = admissionOf(1, 100);
  const waiting = requestOf();
  admission.admit(waiting);
  admission.bodyReceived(waiting);
  clock.time = 1_000_000;
  expect(admission.admit(requestOf())).toBe(false);
  expect(cut).toEqual([]);
});

test('a body never makes room for itself', () => {
  const { clock, admission, cut, requestOf } = admissionOf(2, 100);
  const only = requestOf();
  admission.admit(only);
  expect(admission.reserve(only, 100)).toBe(true);
  clock.time = 10_000;
  expect(admission.reserve(only, 1)).toBe(false);
  expect([cut, admission.bytes]).toEqual([[], 100]);
});

test('several make room for one that needs much', () => {
  const { clock, admission, cut, requestOf } = admissionOf(10, 100);
  const slow = Array.from({ length: 4 }, requestOf);
  for (const each of slow) admission.admit(each) && admission.reserve(each, 25);
  clock.time = 5000;
  const next = requestOf();
  admission.admit(next);
  expect(admission.reserve(next, 60)).toBe(true);
  expect(cut).toEqual(slow.slice(0, 3));
  expect([admission.requests, admission.bytes]).toEqual([2, 85]);
});

test('whatever happens, the sums are those of the requests, and within the bounds', () => {
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
      const { clock, admission, cut, requestOf } = admissionOf(5, 100);
      let inside: InFlightRequest[] = [];
      for (const { what, which, bytes } of list) {
        const chosen = inside[which % Math.max(inside.length, 1)];
        if (what === 'time') clock.time += bytes * 100;
        else if (what === 'enter') {
          const next = requestOf();
          if (admission.admit(next)) inside.push(next);
        } else if (chosen !== undefined && what === 'grow') admission.reserve(chosen, bytes);
        else if (chosen !== undefined && what === 'arrived') admission.bodyReceived(chosen);
        else if (chosen !== undefined && what === 'leave') {
          admission.release(chosen);
          inside = inside.filter((each) => each !== chosen);
        }
        inside = inside.filter((each) => !cut.includes(each));
        expect(admission.requests).toBe(inside.length);
        expect(admission.bytes).toBe(inside.reduce((sum, each) => sum + each.bytes, 0));
        expect(admission.requests).toBeLessThanOrEqual(5);
        expect(admission.bytes).toBeLessThanOrEqual(100);
      }
    }),
  );
});
