import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { amountOf } from '../../../test/support/runs.ts';
import { computableEvent, computations, json, properties } from '../../../test/users/computations.ts';
import { computeNaively } from '../../../test/users/naive-computation.ts';
import type { Computation } from '../../model/definition.ts';
import type { Json } from '../../model/json.ts';
import { HOUR, MINUTE, type Time } from '../../model/time.ts';
import {
  decodeProfile,
  encodeProfile,
  mergeProfiles,
  newIdentity,
  newProfile,
  type ProfileState,
} from '../identity/profile-state.ts';
import { addGroup, setTrait } from '../identity/traits.ts';
import { createTraitEngine, type TraitEngine, type UserEvent } from './trait-engine.ts';

const PROFILES = 3;
const START: Time = Date.UTC(2026, 10, 22, 12);

const age = fc.oneof(
  fc.constant(0),
  fc.integer({ min: -HOUR, max: 30 * HOUR }),
  fc.integer({ min: 0, max: 2 * MINUTE }),
);
const profile = fc.nat({ max: PROFILES - 1 });
const step = fc.oneof(
  {
    weight: 10,
    arbitrary: fc.record({ op: fc.constant('event' as const), profile, ...computableEvent, properties, age }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      op: fc.constant('trait' as const),
      profile,
      name: fc.constantFrom('plan', 'age', 'deep'),
      value: json,
    }),
  },
  fc.record({ op: fc.constant('group' as const), profile, group: fc.constantFrom('g1', 'g2') }),
  fc.record({ op: fc.constant('merge' as const), profile, other: profile }),
  fc.record({ op: fc.constant('store' as const), profile }),
  {
    weight: 3,
    arbitrary: fc.record({ op: fc.constant('wait' as const), time: fc.integer({ min: 1, max: 8 * HOUR }) }),
  },
  { weight: 2, arbitrary: fc.record({ op: fc.constant('wait for change' as const), early: fc.boolean() }) },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** The engine's state of a user, beside all events of that user. */
interface Pair {
  state: ProfileState;
  readonly events: UserEvent[];
  readonly traits: Record<string, Json>;
  readonly groups: Set<string>;
}

class Walk {
  readonly #computations: readonly Computation[];
  readonly #slots = new Map<string, number>();
  #engine: TraitEngine;
  #now = START;
  #steps = 0;
  #pairs: Pair[];

  constructor(computations: readonly Computation[]) {
    this.#computations = computations;
    this.#engine = this.#newEngine();
    this.#pairs = Array.from({ length: PROFILES }, (_, i) => {
      const state = newProfile(i + 1);
      // The first is anonymous until it merges with another.
      if (i > 0) state.userId = `u${i}`;
      if (i > 0) state.identities.push(newIdentity('user', `u${i}`, 0));
      return { state, events: [], traits: {}, groups: new Set<string>() };
    });
    for (const pair of this.#pairs) this.#evaluate(pair);
  }

  run(step: Step): void {
    this.#steps++;
    const passed = this.#now;
    const touched = this.#apply(step);
    const places = this.#placesOf(step);
    for (const pair of this.#pairs) {
      const next = this.#engine.nextChange(pair.state, this.#before);
      if (pair === touched && passed === this.#before) this.#evaluate(pair, places);
      else if (pair === touched || (next !== undefined && next <= this.#now)) this.#evaluate(pair);
    }
    this.#before = this.#now;
    for (const pair of this.#pairs) this.#compare(pair);
  }

  /** When all profiles were last up to date. */
  #before = START;

  #apply(step: Step): Pair | undefined {
    if (step.op === 'wait') this.#now += step.time;
    if (step.op === 'wait for change') {
      const next = this.#engine.nextChange(this.#pairs.at(-1)!.state, this.#now);
      if (next !== undefined) this.#now = Math.max(this.#now, next - (step.early ? 1 : 0));
    }
    if (!('profile' in step)) return undefined;
    const pair = this.#pairs[step.profile % this.#pairs.length]!;
    switch (step.op) {
      case 'event': {
        const { type, name, properties, age } = step;
        const at = Math.min(this.#now, this.#now - age);
        const event = { type, name, properties, at, messageId: `m${(this.#steps * 7919) % 1000}` };
        pair.events.push(event);
        this.#engine.apply(pair.state, event);
        break;
      }
      case 'trait':
        pair.traits[step.name] = step.value;
        setTrait(pair.state, step.name, {
          value: step.value,
          at: this.#steps,
          messageId: 'm',
          isPublic: false,
        });
        break;
      case 'group':
        pair.groups.add(step.group);
        addGroup(pair.state, step.group, { at: this.#now, isPublic: false });
        break;
      case 'store':
        pair.state = decodeProfile(pair.state.id, encodeProfile(pair.state));
        this.#engine = this.#newEngine();
        break;
      case 'merge':
        this.#merge(pair, this.#pairs[step.other % this.#pairs.length]!);
    }
    return pair;
  }

  #merge(winner: Pair, loser: Pair): void {
    if (winner === loser) return;
    const later = (name: string) => {
      const [a, b] = [winner.state.traits.get(name), loser.state.traits.get(name)];
      return a !== undefined && (b === undefined || a.at > b.at) ? winner : loser;
    };
    for (const name of Object.keys(loser.traits)) winner.traits[name] = later(name).traits[name]!;
    for (const group of loser.groups) winner.groups.add(group);
    winner.events.push(...loser.events);
    winner.state = mergeProfiles(winner.state, loser.state);
    this.#pairs = this.#pairs.filter((pair) => pair !== loser);
  }

  /** Computations that a step may have changed; undefined for all. */
  #placesOf(step: Step): Set<number> | undefined {
    const places = new Set<number>();
    const nothing = { type: 'identify', name: undefined, traits: {}, groupId: undefined } as const;
    if (step.op === 'event') this.#engine.touch(places, { ...nothing, type: step.type, name: step.name });
    else if (step.op === 'trait')
      this.#engine.touch(places, { ...nothing, traits: { [step.name]: step.value } });
    else if (step.op === 'group') this.#engine.touch(places, { ...nothing, groupId: step.group });
    else return undefined;
    return places;
  }

  /** Expects that values which were not evaluated were right already. */
  #evaluate(pair: Pair, places?: Set<number>): void {
    const before = new Map([...pair.state.computed].map(([id, { value }]) => [id, value]));
    const changes = this.#engine.evaluate(pair.state, this.#now, places);
    // Never the same change twice.
    for (const { computation, value } of changes) expect(value).not.toEqual(before.get(computation));
    expect(this.#engine.evaluate(pair.state, this.#now)).toEqual([]);
  }

  #compare({ state, events, traits, groups }: Pair): void {
    const user = { userId: state.userId, events, traits, groups: [...groups] };
    const expected = computeNaively(this.#computations, user, this.#now);
    for (const { id, kind, name } of this.#computations) {
      const value = state.computed.get(id)?.value ?? (kind === 'audience' ? false : null);
      // `expect` takes longer than everything else.
      if (!isDeepStrictEqual(value, expected.get(id))) {
        expect({ name, value }).toEqual({ name, value: expected.get(id) });
      }
    }
  }

  #newEngine(): TraitEngine {
    return createTraitEngine(this.#computations, (key) => {
      const known = this.#slots.get(key) ?? this.#slots.size + 1;
      this.#slots.set(key, known);
      return known;
    });
  }
}

const RUNS = amountOf({ gate: 300, long: 20_000 });

test('values equal a computation over all events, after each event, merge, restart and passage of time', () => {
  fc.assert(
    fc.property(computations, fc.array(step, { maxLength: 40, size: 'max' }), (definitions, steps) => {
      const walk = new Walk(definitions);
      for (const one of steps) walk.run(one);
    }),
    { numRuns: RUNS },
  );
});
