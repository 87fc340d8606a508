import type { FaultProxy } from '../support/fault-proxy.ts';

/** A published client library in one version, sending in one way. */
export interface Client {
  readonly name: string;
  readonly version: string;
  readonly way: Way;
  /** Speaks https only, whatever it is told. */
  readonly secure?: true;
  /** Runs in a browser, which resends on its own what breaks on a connection it has used before. */
  readonly inBrowser?: true;
  /**
   * Makes the six calls and resolves when the client regards all of them as done, or, for one that gives no
   * sign of it, when what is expected has happened and the client was made to leave.
   */
  run(order: Order): Promise<Outcome>;
}

export const WAYS = ['single calls', 'batches'] as const;
export type Way = (typeof WAYS)[number];

export interface Order {
  readonly proxy: FaultProxy;
  readonly writeKey: string;
  readonly userId: string;
  /** How long to wait for an answer, ms; `CLIENT_TIMEOUT` when absent. Not for a browser. */
  readonly timeout?: number;
  /** How often the six calls are made; once when absent, and always in a browser. */
  readonly rounds?: number;
  readonly expected: Expectation;
  /** Messages the fault hits, as soon as there is one. */
  readonly victims: () => ReadonlySet<string>;
}

export interface Outcome {
  /** The types of the calls that the client itself reported as failed. */
  readonly reported: ReadonlySet<string>;
  /** The page was left with calls in its storage, and loaded again. */
  readonly reloaded?: true;
}

/** Observations of the calls that a fault hits. */
export interface Facts {
  /** Requests in which the client sent them; at least, where the page was loaded again. */
  readonly tries: number;
  /** They never arrive: the client gave them up. */
  readonly lost?: true;
  /** The client did not wait for what `Retry-After` said. */
  readonly hasty?: true;
  /** The last try came only after the page had been left and loaded again. */
  readonly reloaded?: true;
  /** The client told the program that it lost them. */
  readonly told?: true;
}

export interface Expectation extends Facts {
  /** A remark about it: a sentence under the table. */
  readonly note?: string;
}

/** How a client is called in the table. */
export function titleOf({ name, version, way }: Pick<Client, 'name' | 'version' | 'way'>): string {
  return `${name} ${version}, ${way}`;
}
