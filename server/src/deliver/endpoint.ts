import type { Outcome } from '../model/delivery.ts';
import {
  type EndpointError,
  type EndpointHealth,
  type HealthChange,
  RESULTS,
  type RequestResult,
  resultOf,
} from '../model/endpoint-health.ts';
import { shownUrl } from '../model/shown-url.ts';
import { MINUTE, type Time } from '../model/time.ts';
import type { Answer } from '../ports/transport.ts';

/** Changes of the state that are kept. */
const HISTORY = 20;

/** Of them so many may be of the same minute; further ones are counted in the last. */
const A_MINUTE = 6;

/** Characters of an answer that are kept with the last error. */
const ANSWER = 200;

/** An endpoint as a status screen shows it. */
export interface EndpointState extends Omit<EndpointHealth, 'url' | 'state'> {
  /** Its URL without what may be a secret in it. */
  readonly endpoint: string;
  /** Its place in the settings, from 1, and its host: short, and the same as long as the settings are. */
  readonly label: string;
  /** `healthy` also before its first request. */
  readonly state: 'healthy' | 'failing';
  /** As `attempts`, since this program started. */
  readonly attemptsSinceStart: EndpointHealth['attempts'];
}

/**
 * How one endpoint does, by the requests that were sent to it: also by those whose answers nobody waited for any more,
 * because a sibling had accepted the event. Noting one changes a few fields and makes nothing new.
 */
export class Endpoint {
  readonly url: string;
  readonly #changed: (isTurned: boolean) => void;
  /** By the places of `RESULTS`: since this program started, and before. */
  readonly #counts = new Float64Array(RESULTS.length);
  readonly #earlier = new Float64Array(RESULTS.length);
  #state: 'healthy' | 'failing' | undefined;
  #since: Time = 0;
  #acceptedAt: Time | undefined;
  #failure: { at: Time; reason: string; status: number | undefined; answer: string } | undefined;
  #history: Changing[] = [];

  /** `changed` is called at every request; `isTurned`: its state is another one. */
  constructor(url: string, changed: (isTurned: boolean) => void) {
    this.url = url;
    this.#changed = changed;
  }

  get state(): 'healthy' | 'failing' | undefined {
    return this.#state;
  }

  /** When the first request of the state ended. */
  get since(): Time {
    return this.#since;
  }

  get lastError(): EndpointError | undefined {
    if (this.#failure === undefined) return undefined;
    const { at, reason, status, answer } = this.#failure;
    return {
      ...{ at, reason },
      ...(status === undefined ? {} : { status }),
      ...(answer === '' ? {} : { answer: answer.slice(0, ANSWER) }),
    };
  }

  /** A request has ended, at this time of the wall clock. Runs for every request. */
  note(outcome: Outcome, answer: Answer, at: Time): void {
    this.#counts[resultOf(outcome)]!++;
    const state = outcome.kind === 'accepted' ? 'healthy' : 'failing';
    if (state === 'healthy') this.#acceptedAt = at;
    else this.#fail(outcome, answer, at);
    const isTurned = state !== this.#state;
    if (isTurned) this.#turn(state, at, outcome);
    this.#changed(isTurned);
  }

  /** Takes up what an earlier process has kept; what was noted since the start goes on from there. */
  recall(kept: EndpointHealth): void {
    RESULTS.forEach((result, place) => {
      this.#earlier[place] = kept.attempts[result] ?? 0;
    });
    if (this.#state !== undefined) return;
    this.#state = kept.state;
    this.#since = kept.since ?? 0;
    this.#acceptedAt = kept.lastAcceptedAt;
    this.#history = kept.history.slice(-HISTORY).map((change) => ({ flaps: 0, ...change }));
    if (kept.lastError === undefined) return;
    const { at, reason, status, answer = '' } = kept.lastError;
    this.#failure = { at, reason, status, answer };
  }

  /** To be kept. */
  health(): EndpointHealth {
    const { lastError } = this;
    return {
      url: this.url,
      ...(this.#state === undefined ? {} : { state: this.#state, since: this.#since }),
      ...(this.#acceptedAt === undefined ? {} : { lastAcceptedAt: this.#acceptedAt }),
      ...(lastError === undefined ? {} : { lastError }),
      attempts: countsOf((place) => this.#counts[place]! + this.#earlier[place]!),
      history: this.#history.map(changeOf),
    };
  }

  /** To be shown. `place`: in the settings, from 0. */
  shown(place: number): EndpointState {
    const { url, state = 'healthy', ...health } = this.health();
    return {
      endpoint: shownUrl(url),
      label: `${place + 1}/${URL.canParse(url) ? new URL(url).host : ''}`,
      ...{ state, ...health },
      attemptsSinceStart: countsOf((nth) => this.#counts[nth]!),
    };
  }

  #fail({ reason, status }: Outcome, answer: Answer, at: Time): void {
    const text = answer.kind === 'answered' ? answer.body : answer.detail;
    this.#failure ??= { at, reason, status, answer: text };
    this.#failure.at = at;
    this.#failure.reason = reason;
    this.#failure.status = status;
    this.#failure.answer = text;
  }

  #turn(state: 'healthy' | 'failing', at: Time, { reason }: Outcome): void {
    this.#state = state;
    this.#since = at;
    const last = this.#history.at(-1);
    const early = this.#history.at(-A_MINUTE);
    if (last !== undefined && early !== undefined && Math.abs(at - early.at) < MINUTE) {
      last.at = at;
      last.state = state;
      last.reason = reason;
      last.flaps++;
      return;
    }
    this.#history.push({ at, state, reason, flaps: 0 });
    if (this.#history.length > HISTORY) this.#history.shift();
  }
}

interface Changing {
  at: Time;
  state: 'healthy' | 'failing';
  reason?: string;
  flaps: number;
}

function changeOf({ at, state, reason, flaps }: Changing): HealthChange {
  return {
    ...{ at, state },
    ...(state === 'healthy' || reason === undefined ? {} : { reason }),
    ...(flaps === 0 ? {} : { flaps }),
  };
}

function countsOf(read: (place: number) => number): EndpointHealth['attempts'] {
  const counts: Partial<Record<RequestResult, number>> = {};
  RESULTS.forEach((result, place) => {
    const n = read(place);
    if (n > 0) counts[result] = n;
  });
  return counts;
}
