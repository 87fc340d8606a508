import type { HttpResult } from '../../../src/ports/http-client.ts';
import type { IngestResult } from '../../../src/ports/ingest.ts';
import type { Book, Changes, Known } from '../book.ts';
import type { Kernel, Life } from '../kernel.ts';
import type { Endpoint, Network, Sending } from '../network.ts';
import type { ServerNode } from '../node.ts';
import type { DestinationPlan, Scenario } from '../scenario.ts';
import type { Situation } from '../situations.ts';
import type { Applied, WorldStore } from '../world-store.ts';

/** When something was last wrong: promises of quick recovery hold a while after it. */
export interface Troubles {
  death: number;
  ready: number;
  /** The end of the last stand-still. */
  still: number;
  /** The end of the last bad time of the store; one that is only slow does not count. */
  store: number;
  lostLease: number;
  /** The end of the last time in which the store was so slow that somebody would notice. */
  slow: number;
}

/** Periods in which an operator had a destination paused; the last may have no end yet. */
export interface PauseTime {
  readonly from: number;
  to?: number;
}

/** The parts of a world that promises may look at. */
export interface WorldView {
  readonly scenario: Scenario;
  readonly kernel: Kernel;
  readonly book: Book;
  readonly store: WorldStore;
  readonly network: Network;
  readonly nodes: readonly ServerNode[];
  readonly troubles: Troubles;
  readonly hasProfiles: boolean;
  /** By the id of the destination. */
  readonly pauses: ReadonlyMap<number, readonly PauseTime[]>;
  /** Calls whose clients have no answer yet. */
  readonly callsWaiting: number;
  /** Users whose deletion was asked for; a lifted suppression takes them out. */
  readonly deletedUsers: ReadonlySet<string>;
  /** Users whom somebody has suppressed at some time: their calls may be discarded. */
  readonly suppressedUsers: ReadonlySet<string>;
  nodeOf(life: Life): ServerNode;
  planOf(destination: number): DestinationPlan;
  endpointsOf(destination: number): readonly Endpoint[];
  /** A promise is broken: the world ends. */
  fail(promise: string, message: string): void;
  reached(situation: Situation): void;
}

/** A request with what the world knows of it. */
export interface KnownSending extends Sending {
  /** Undefined for an event that was never stored. */
  readonly known: Known | undefined;
  readonly destination: number;
  readonly lane: number;
  /** `deliveryKey`. */
  readonly key: string;
  readonly node: ServerNode;
}

/** A call as a client has sent it. */
export interface ClientCall {
  readonly events: readonly Known[];
  /** When the client began its first try. */
  readonly begunAt: number;
}

/** A request that a node has begun to handle. */
export interface TakenCall {
  readonly call: ClientCall;
  readonly invalid: number;
  readonly node: ServerNode;
  readonly life: Life;
  isAnswered: boolean;
}

/** Watches one family of promises: each method is called at each such moment. */
export interface Watcher {
  /** An operation of the store has taken effect. */
  applied?(applied: Applied, changes: Changes): void;
  /** A process begins a request. */
  sending?(sending: KnownSending): void;
  /** An endpoint has taken a request. */
  accepted?(sending: KnownSending): void;
  /** A process hears the answer. */
  heard?(sending: KnownSending, answer: HttpResult): void;
  /** A node takes a request of a client. */
  taken?(taken: TakenCall): void;
  /** A node answers a request of a client. */
  answered?(taken: TakenCall, result: IngestResult): void;
  /** A client hears that its calls are stored. */
  acknowledged?(call: ClientCall): void;
  /** A bad time of an endpoint has ended, two minutes ago. */
  endpointBack?(endpoint: Endpoint, backAt: number): void;
  /** Everything has been well for long, or nothing waits any more. */
  ended?(): void;
}

/** A family of promises, by the chapter of the specification that makes them. */
export interface PromiseFamily {
  readonly name: string;
  readonly headings: readonly string[];
  watch(world: WorldView): Watcher;
}
