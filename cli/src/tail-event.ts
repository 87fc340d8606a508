import type { StreamEvent } from './event-stream.ts';
import type { Shown } from './happening-line.ts';

/** What the control API tells of one happening, with the shape the line of `millrace dev` is made from. */
export interface Told {
  /** When, by the server's clock. */
  readonly at: number;
  readonly shown: Shown;
  /** The event as it came. */
  readonly event: object | undefined;
}

interface Data {
  readonly at: string;
  /** Absent where none is known. */
  readonly source?: string;
  readonly destination: string;
  readonly event: Extract<Shown, { kind: 'accepted' }>['event'];
  readonly latencyMs: number;
  readonly reason?: string;
  readonly state: 'delivered' | 'retrying' | 'dead';
  readonly nextAttemptAt?: string;
  readonly attempts: readonly {
    readonly latencyMs: number;
    readonly outcome: 'accepted' | 'retryable' | 'refused';
    readonly reason: string;
    readonly status?: number;
  }[];
}

type Settled = Extract<Shown, { kind: 'settled' }>;

/** An event of the stream; undefined for one of a kind that this program does not know. */
export function toldIn({ name, data: text }: StreamEvent): Told | undefined {
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
      outcome: { kind, reason, ...(status === undefined ? {} : { status }) },
    })),
  };
}

function decisionIn({ state, reason = '', nextAttemptAt = '' }: Data): Settled['decision'] {
  switch (state) {
    case 'delivered':
      return { kind: 'delivered' };
    case 'retrying':
      return { kind: 'retry', at: Date.parse(nextAttemptAt) };
    case 'dead':
      return { kind: 'dead', reason };
  }
}
