import type { Control } from '../ports/control.ts';
import { drain } from './body.ts';
import { askControl } from './control-request.ts';
import { optionsAnswer } from './cors.ts';
import type { Exchange } from './exchange.ts';
import { type Means, takeCall, turnAway } from './incoming-call.ts';
import { Pipelines } from './pipelines.ts';
import { takePixel } from './pixel-call.ts';
import { settingsAnswer } from './project-settings.ts';
import { type Answer, answerOf, failure, success } from './respond.ts';
import {
  type Action,
  type CallAction,
  findPath,
  isControlPath,
  isMetricsPath,
  isReceivingPath,
  type Path,
  pathIn,
} from './routes.ts';

export interface ReceptionOptions extends Means {
  /** Answers everything below `/api`; without it there is nothing. */
  readonly control: Control | undefined;
  /** Answers at `/metrics`; without it there is nothing. */
  readonly metrics: Control | undefined;
  /** The port of everything that is not answered here, because only calls are taken. */
  readonly adminPort: (() => number) | undefined;
  /** Whether calls are taken here. */
  readonly isReceiving: boolean;
  /** Why calls cannot be accepted now; empty when they can. */
  readonly readiness: () => readonly string[];
  /** What is not well though calls are accepted. */
  readonly degraded?: (() => readonly string[]) | undefined;
  /** Where clients reach this server; they are told by the settings endpoint. */
  readonly publicUrl: string | undefined;
}

/** What is answered at once. */
type PlainAction = Exclude<Action, { readonly kind: 'call' | 'pixel' }>;

const ALIVE = answerOf(200, '{"status":"alive"}');
const READY = answerOf(200, '{"status":"ready"}');

/** Takes every request and brings it to what answers it. */
export class Reception {
  readonly #options: ReceptionOptions;
  readonly #pipelines = new Pipelines();

  constructor(options: ReceptionOptions) {
    this.#options = options;
  }

  receive(exchange: Exchange): void {
    const { request } = exchange;
    const { socket } = request;
    const turn = this.#pipelines.next(socket);
    // The client takes the end of the connection for no answer, and sends it again.
    if (turn === 'rest') return;
    if (turn === 'flood') {
      // Nothing more is read; what is in memory already comes as the rest.
      socket.pause();
      exchange.closeAfter();
      turnAway(exchange, this.#options);
      return;
    }
    const path = this.#pathOf(exchange.target);
    const action = path?.actions.get(request.method ?? '');
    if (action?.kind === 'call') {
      takeCall(exchange, action, this.#options);
      return;
    }
    const control = path === undefined ? this.#controlAt(exchange.target) : undefined;
    if (control !== undefined) {
      askControl(exchange, control, this.#options);
      return;
    }
    exchange.invite();
    drain(request);
    if (action === undefined && this.#options.isReceiving && isReceivingPath(exchange.target)) {
      // A client with a wrong base URL drops its events without a word: this is where an operator can see it.
      this.#options.tallies?.refused(path === undefined ? 'not_found' : 'method_not_allowed', {
        // What asks for something brings no call.
        writeKey: request.method === 'GET' || request.method === 'HEAD' ? undefined : exchange.writeKey,
      });
    }
    if (path !== undefined) this.#act(exchange, action, path.allow);
    else exchange.reply(failure('not_found', this.#elsewhere(exchange.target)));
  }

  /** Where no calls are taken, the paths of the receiving API do not exist. */
  #pathOf(target: string): Path | undefined {
    return this.#options.isReceiving || !isReceivingPath(target) ? findPath(target) : undefined;
  }

  /** Where to go with what is asked here for, where calls have a port of their own. */
  #elsewhere(target: string): string | undefined {
    const { adminPort } = this.#options;
    const isThere = isControlPath(target) || isMetricsPath(target) || pathIn(target) === '/';
    if (adminPort === undefined || !isThere) return undefined;
    return `Here only calls are taken; control API, metrics and console are on port ${adminPort()} (admin.port).`;
  }

  /** What answers for a path that is not of the receiving API. */
  #controlAt(target: string): Control | undefined {
    if (isControlPath(target)) return this.#options.control;
    return isMetricsPath(target) ? this.#options.metrics : undefined;
  }

  /** Everything but calls. `allow` lists the methods of the path. */
  #act(exchange: Exchange, action: Exclude<Action, CallAction> | undefined, allow: string): void {
    if (action?.kind === 'pixel') takePixel(exchange, action.type, this.#options);
    else exchange.reply(this.#answerOf(exchange, action, allow));
  }

  #answerOf(exchange: Exchange, action: PlainAction | undefined, allow: string): Answer {
    switch (action?.kind) {
      case undefined:
        return notAllowed(allow);
      case 'options':
        return optionsAnswer(allow, isReceivingPath(exchange.target));
      case 'settings':
        return settingsAnswer(action.writeKey, this.#options.publicUrl);
      case 'swallow':
        return success();
      case 'alive':
        return ALIVE;
      case 'ready':
        return readinessAnswer(this.#options.readiness(), this.#options.degraded?.() ?? []);
    }
  }
}

function notAllowed(allow: string): Answer {
  const answer = failure('method_not_allowed');
  return { ...answer, headers: [...answer.headers, 'Allow', allow] };
}

function readinessAnswer(reasons: readonly string[], degraded: readonly string[]): Answer {
  if (reasons.length > 0) return answerOf(503, JSON.stringify({ status: 'not_ready', reasons }));
  return degraded.length === 0 ? READY : answerOf(200, JSON.stringify({ status: 'ready', degraded }));
}
