import type { StreamEvent } from './event-stream.ts';
import type { Shown } from './happening-line.ts';

/** An activity from the control API, in the shape that the lines of `millrace dev` use. */
export interface TailActivity {
  /** Server time. */
  readonly at: number;
  readonly shown: Shown;
  /** The event as received. */
  readonly event: object | undefined;
}

interface Data {
  readonly at: string;
  /** Absent when no source is known. */
  readonly source?: string;
  readonly destination: string;
  readonly event: Extract<Shown, { kind: 'accepted' }>['event'];
  readonly latencyMs: number;
  readonly reason?: string;
  readonly note?: string;
  readonly state: 'delivered' | 'retrying' | 'dead' | 'dropped';
  readonly nextAttemptAt?: string;
  readonly attempts: readonly {
    readonly latencyMs: number;
    readonly outcome: 'accepted' | 'retryable' | 'refused';
    readonly reason: string;
    readonly status?: number;
  }[];
}

type Settled = Extract<Shown, { kind: 'settled' }>;

/** Parses an event of the stream. Returns undefined for an unknown kind. */
export function parseActivity({ name, data: text }: StreamEvent): TailActivity | undefined {
  const data = JSON.parse(text) as Data;
  const at = Date.parse(data.at);
  const { source, event, reason = '' } = data;
  switch (name) {
    case 'accepted':
    case 'duplicate':
      return { at, event, shown: { kind: name, event, latencyMs: data.latencyMs } };
    case 'discarded':
      return { at, event: undefined, shown: { kind: name, source, reason } };
    case 'settled':
      return { at, event, shown: { kind: name, ...settledIn(data) } };
    default:
      return undefined;
  }
}

function settledIn(data: Data): Omit<Settled, 'kind'> {
  const { destination, event, attempts } = data;
  return {
    ...{ destination, event, decision: decisionIn(data) },
    attempts: attempts.map(({ latencyMs, outcome: kind, reason, status }) => ({
      latencyMs,
      outcome: { kind, reason, status },
    })),
  };
}

function decisionIn({ state, reason = '', note, nextAttemptAt = '' }: Data): Settled['decision'] {
  switch (state) {
    case 'delivered':
      return { kind: 'delivered' };
    case 'retrying':
      return { kind: 'retry', at: Date.parse(nextAttemptAt) };
    case 'dead':
      return { kind: 'dead', reason };
    case 'dropped':
      return { kind: 'dropped', reason, note };
  }
}
