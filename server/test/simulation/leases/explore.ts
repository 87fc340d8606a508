/**
 * Walks through every state that the model of leases can come to, breadth first, so that a broken promise is
 * shown by the shortest way to it.
 */
import { begin, type Guard, type Part, type PendingSet, type Scenario, type State, Steps } from './model.ts';

export interface Explored {
  readonly states: number;
  readonly steps: number;
  /** The promise that is broken, and the steps to it; undefined where all are kept. */
  readonly broken?: { readonly promise: string; readonly trace: readonly string[] } | undefined;
}

/** Explores one scenario, with one guard left out. Throws where there are more than `most` states. */
export function explore(scenario: Scenario, without: readonly Guard[] = [], most = 5_000_000): Explored {
  const steps = new Steps(without);
  const first = begin(scenario);
  const keys = new Keys();
  const known = new Map<string, number>([[keys.of(first), 0]]);
  const states: (State | undefined)[] = [first];
  const parents: number[] = [-1];
  /** From where, to where: what chance does is not among them, because nothing may need it. */
  const edges: number[] = [];
  let count = 0;
  const ended: number[] = [];
  const traceTo = (at: number): string[] => traceOf({ steps, keys, first, parents, known }, at);
  for (let at = 0; at < states.length; at++) {
    const state = states[at]!;
    // What is left of a state is its key.
    states[at] = undefined;
    if (state.sets.every(({ end }) => end !== '')) ended.push(at);
    for (const { label, next, broken } of steps.after(state)) {
      if (broken !== undefined)
        return {
          states: known.size,
          steps: count,
          broken: { promise: broken, trace: [...traceTo(at), label] },
        };
      const key = keys.of(next);
      let to = known.get(key);
      if (to === undefined) {
        to = states.length;
        if (to >= most) throw new Error(`more than ${most} states: give fewer chances`);
        known.set(key, to);
        states.push(next);
        parents.push(at);
      }
      count++;
      if (next.left === state.left) edges.push(at, to);
    }
  }
  const found = { states: known.size, steps: count };
  const stuck = firstStuck(states.length, edges, ended);
  if (stuck === undefined) return found;
  return {
    ...found,
    broken: { promise: 'a set is lost: from here on no step leads to its end', trace: traceTo(stuck) },
  };
}

/**
 * Numbers the states. Sets differ by their names alone, so states that differ by the order of their sets are
 * one. Most of what a state consists of stands in many others too: it is numbered by itself, once.
 */
class Keys {
  readonly #numbers = new Map<string, number>();

  of({ sets, leases, nodes, left, terms }: State): string {
    const own = sets.map((set) => this.#number(set, textOfSet)).sort((a, b) => a - b);
    const others = [...leases, ...nodes, left].map((part) => this.#number(part, JSON.stringify));
    return String.fromCharCode(...own, ...others, terms);
  }

  #number<P extends Part>(part: P, textOf: (part: P) => string): number {
    if (part.number !== undefined) return part.number;
    const text = textOf(part);
    const number = this.#numbers.get(text) ?? this.#numbers.size;
    if (number > 0xffff) throw new Error('too many parts for a key of characters: give fewer chances');
    this.#numbers.set(text, number);
    part.number = number;
    return number;
  }
}

function textOfSet({ name: _, copies, ...set }: PendingSet): string {
  return JSON.stringify([set, copies.map((copy) => JSON.stringify(copy)).sort()]);
}

/** The first state from which no way leads to an end of every set. */
function firstStuck(states: number, edges: readonly number[], ended: readonly number[]): number | undefined {
  const before = new Int32Array(states + 1);
  for (let nth = 1; nth < edges.length; nth += 2) before[edges[nth]! + 1]!++;
  for (let at = 0; at < states; at++) before[at + 1]! += before[at]!;
  const filled = before.slice();
  const from = new Int32Array(edges.length / 2);
  for (let nth = 0; nth < edges.length; nth += 2) from[filled[edges[nth + 1]!]!++] = edges[nth]!;
  const ends = new Uint8Array(states);
  const open = [...ended];
  for (const at of ended) ends[at] = 1;
  for (let at = open.pop(); at !== undefined; at = open.pop())
    for (const earlier of from.subarray(before[at], before[at + 1]))
      if (ends[earlier] === 0) {
        ends[earlier] = 1;
        open.push(earlier);
      }
  const stuck = ends.indexOf(0);
  return stuck < 0 ? undefined : stuck;
}

interface Walked {
  readonly steps: Steps;
  readonly keys: Keys;
  readonly first: State;
  readonly parents: readonly number[];
  readonly known: ReadonlyMap<string, number>;
}

/** Takes the way to a state once more, because the states on it are not kept. */
function traceOf({ steps, keys, first, parents, known }: Walked, to: number): string[] {
  const way: number[] = [];
  for (let at = to; at !== 0; at = parents[at]!) way.unshift(at);
  let state = first;
  return way.map((at) => {
    const { next, label } = steps.after(state).find((step) => known.get(keys.of(step.next)) === at)!;
    state = next;
    return label;
  });
}
