import type { FailureReason, HttpClient, HttpResult, OutboundRequest } from '../../src/ports/http-client.ts';
import type { Kernel, Life } from './kernel.ts';
import type { Chance } from './random.ts';
import type { Mode } from './scenario.ts';

/** An endpoint of the customer, of any temper. It remembers what it has accepted. */
export class Endpoint {
  readonly url: string;
  /** Its place among all endpoints of the world. */
  readonly place: number;
  /** Ways to answer that are in force, the newest last. */
  readonly modes: { readonly mode: Mode; readonly until: number }[] = [];
  /** How often it accepted each event, by the id in the request. */
  readonly accepted = new Map<string, number>();
  /** When the last bad time ends. */
  badUntil = 0;
  /** When a request was begun last. */
  askedAt = 0;
  /** Requests under way. */
  open = 0;

  constructor(url: string, place: number) {
    this.url = url;
    this.place = place;
  }

  modeAt(now: number): Mode | 'up' {
    return this.modes.findLast(({ until }) => until > now)?.mode ?? 'up';
  }
}

/** A request as the world sees it. */
export interface Sending {
  readonly endpoint: Endpoint;
  readonly request: OutboundRequest;
  /** The `Webhook-Id`: the messageId of the event. */
  readonly id: string;
  readonly life: Life;
}

export interface NetworkListener {
  /** A process begins a request. */
  sending(sending: Sending): void;
  /** An endpoint has taken it. */
  accepted(sending: Sending): void;
  /** The process hears the answer. */
  heard(sending: Sending, answer: HttpResult): void;
}

/** Ends a request after a while, unless it has ended before. */
type End = (delay: number, answer: (latencyMs: number) => HttpResult) => void;

/** Everything between the nodes and the endpoints. */
export class Network {
  readonly endpoints = new Map<string, Endpoint>();
  readonly #kernel: Kernel;
  readonly #chance: Chance;
  readonly #listener: NetworkListener;

  constructor(kernel: Kernel, chance: Chance, listener: NetworkListener) {
    this.#kernel = kernel;
    this.#chance = chance;
    this.#listener = listener;
  }

  clientOf(life: Life): HttpClient {
    return { send: (request, done) => this.#send(life, request, done), stop: async () => {} };
  }

  #send(life: Life, request: OutboundRequest, done: (answer: HttpResult) => void): void {
    const kernel = this.#kernel;
    const endpoint = this.endpoints.get(request.url);
    if (endpoint === undefined) throw new Error(`no endpoint of this world has the URL ${request.url}`);
    const sending = { endpoint, request, id: request.headers['Webhook-Id']!, life };
    const begun = kernel.now;
    kernel.note('send', endpoint.place, sending.id);
    this.#listener.sending(sending);
    endpoint.askedAt = begun;
    endpoint.open++;
    let hasEnded = false;
    const end: End = (delay, answer) => {
      kernel.arrive(delay, undefined, 'answer on its way', () => {
        if (hasEnded) return;
        hasEnded = true;
        endpoint.open--;
        kernel.arrive(0, life, 'answer', () => {
          const result = answer(kernel.now - begun);
          kernel.note(
            'answer',
            endpoint.place,
            sending.id,
            result.kind === 'answered' ? result.status : result.reason,
          );
          this.#listener.heard(sending, result);
          done(result);
        });
      });
    };
    // The time limit of the client.
    end(request.timeout, failed('timeout'));
    const travel = 0.1 + this.#chance.exponential(2);
    kernel.arrive(travel, undefined, 'request arrives', () => this.#answer(sending, end));
  }

  #answer(sending: Sending, end: End): void {
    const chance = this.#chance;
    const back = 0.1 + chance.exponential(3);
    const accept = (delay = back) => {
      this.#accept(sending);
      end(delay, answered(200));
    };
    const say = (status: number, retryAfter?: string) => end(back, answered(status, retryAfter));
    const answers: Record<Mode | 'up', () => void> = {
      up: () => accept(),
      slow: () => accept(800 + chance.exponential(400)),
      late: () => accept(4000 + chance.exponential(2000)),
      flaky: () => (chance.is(0.4) ? say(500) : accept()),
      mixed: () => {
        if (chance.is(0.93)) say(503);
      },
      poisoned: () => (isPoisonous(sending.id) ? say(chance.of([400, 500])) : accept()),
      rejects: () => say(chance.of([400, 404, 422])),
      refuses: () => end(0.1, failed('connection_refused')),
      error: () => say(chance.of([500, 502, 503])),
      wants_later: () => say(chance.of([429, 503]), String(1 + chance.below(50))),
      resets: () => end(back, failed('connection_closed')),
      resets_after: () => {
        this.#accept(sending);
        end(back, failed('connection_closed'));
      },
      hangs: () => {},
    };
    answers[sending.endpoint.modeAt(this.#kernel.now)]();
  }

  #accept(sending: Sending): void {
    const { accepted, place } = sending.endpoint;
    accepted.set(sending.id, (accepted.get(sending.id) ?? 0) + 1);
    this.#kernel.note('accept', place, sending.id);
    this.#listener.accepted(sending);
  }
}

/** Whether an endpoint that cannot digest some events chokes on this one. */
function isPoisonous(id: string): boolean {
  return id.charCodeAt(id.length - 1) % 3 === 0;
}

function answered(status: number, retryAfter?: string): (latencyMs: number) => HttpResult {
  const body = status < 300 ? '' : 'no';
  const head = retryAfter === undefined ? { status, body } : { status, body, retryAfter };
  return (latencyMs) => ({ kind: 'answered', ...head, latencyMs });
}

function failed(reason: FailureReason): (latencyMs: number) => HttpResult {
  return (latencyMs) => ({ kind: 'failed', reason, detail: 'simulated', latencyMs });
}
