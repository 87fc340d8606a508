import type { Duration, Time } from '../../src/model/time.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { FailureReason, HttpClient, HttpResult, OutboundRequest } from '../../src/ports/http-client.ts';

/** One request as it reached an endpoint. */
export interface Arrival {
  readonly url: string;
  /** The messageId. */
  readonly id: string;
  readonly at: Time;
}

/** What an endpoint does with a request. */
export interface Reply {
  /** Until it answers; a millisecond when absent. Beyond the request's time limit it is a timeout. */
  readonly after?: Duration;
  readonly status?: number;
  readonly retryAfter?: string;
  /** Instead of an answer. */
  readonly failed?: FailureReason;
}

export const OK: Reply = { status: 200 };
export const DOWN: Reply = { failed: 'connection_refused' };
export const HANGS: Reply = { after: Number.POSITIVE_INFINITY };

/** Says for every request what the endpoint does; `nth` counts the requests of all endpoints from 0. */
export type Behaviour = (arrival: Arrival, nth: number) => Reply;

/** Endpoints as a test wants them, on the test's clock. */
export interface FakeEndpoints extends HttpClient {
  behave: Behaviour;
  readonly arrivals: Arrival[];
  /** Requests without an answer yet, by URL. */
  readonly open: Map<string, number>;
  /** The most requests that were ever open at once, by URL. */
  readonly mostOpen: Map<string, number>;
}

export function fakeEndpoints(clock: Clock, behave: Behaviour): FakeEndpoints {
  const arrivals: Arrival[] = [];
  const open = new Map<string, number>();
  const mostOpen = new Map<string, number>();
  const self: FakeEndpoints = {
    behave,
    arrivals,
    open,
    mostOpen,
    send(request, done) {
      const { url } = request;
      const arrival = { url, id: request.headers['Webhook-Id']!, at: clock.now() };
      const nth = arrivals.push(arrival) - 1;
      const { after = 1, ...reply } = self.behave(arrival, nth);
      const now = (open.get(url) ?? 0) + 1;
      open.set(url, now);
      mostOpen.set(url, Math.max(mostOpen.get(url) ?? 0, now));
      const latencyMs = Math.min(after, request.timeout);
      clock.after(latencyMs, () => {
        open.set(url, open.get(url)! - 1);
        done(answerOf(after, request, reply));
      });
    },
    async stop() {},
  };
  return self;
}

function answerOf(after: Duration, { timeout }: OutboundRequest, reply: Reply): HttpResult {
  const latencyMs = Math.min(after, timeout);
  if (after > timeout) return { kind: 'failed', reason: 'timeout', detail: 'no answer', latencyMs };
  if (reply.failed !== undefined)
    return { kind: 'failed', reason: reply.failed, detail: 'scripted', latencyMs };
  const { status = 200, retryAfter } = reply;
  const header = retryAfter === undefined ? {} : { retryAfter };
  return { kind: 'answered', status, body: '', latencyMs, ...header };
}
