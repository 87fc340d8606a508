import type { Duration, Time } from '../../src/model/time.ts';
import type { Clock } from '../../src/ports/clock.ts';
import type { FailureReason, HttpClient, HttpResult, OutboundRequest } from '../../src/ports/http-client.ts';

/** A request that has reached an endpoint. */
export interface Arrival {
  readonly url: string;
  /** The messageId. */
  readonly id: string;
  readonly at: Time;
}

/** The reply of an endpoint to a request. */
export interface Reply {
  /** Delay of the answer; a millisecond when absent. A delay beyond the request's time limit is a timeout. */
  readonly after?: Duration;
  readonly status?: number;
  readonly retryAfter?: string;
  /** The failure of a request without an answer. */
  readonly failed?: FailureReason;
}

export const OK: Reply = { status: 200 };
export const DOWN: Reply = { failed: 'connection_refused' };
export const HANGS: Reply = { after: Number.POSITIVE_INFINITY };

/** Chooses the reply to a request; `nth` counts the requests of all endpoints from 0. */
export type Behaviour = (arrival: Arrival, nth: number) => Reply;

/** Endpoints with replies chosen by the test, on the test's clock. */
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
