import type { ControlHandler } from '../control-api/contract.ts';
import type { LinkedList } from '../model/containers.ts';
import type { Monotonic } from '../model/time.ts';
import type { InFlightRequest } from './admission.ts';
import { errorResponse, INCOMING_BODY, type NodeHttpExchange, type TrackedSocket } from './exchange.ts';
import {
  clientOf,
  DrainedBody,
  RequestBody,
  type RequestDependencies,
  rejectOverloaded,
} from './receiving-api.ts';
import { targetPath } from './routes.ts';

/** The largest body of the control API, in bytes. A larger one is dropped, and the handler is told `too_large`. */
const MAX_BODY_BYTES = 1024 * 1024;

/**
 * Collects the body of a request to the control API within the bounds, and hands the request over. The sender is
 * not authenticated yet, so the request takes a slot like a call until its body is complete.
 */
export function handleControlRequest(
  exchange: NodeHttpExchange,
  control: ControlHandler,
  dependencies: RequestDependencies,
): void {
  const asked = new PendingControlRequest(exchange, control, dependencies);
  if (dependencies.admission.admit(asked)) {
    exchange.writeContinue();
    asked.read();
  } else rejectOverloaded(exchange, dependencies);
}

class PendingControlRequest implements InFlightRequest {
  bytes = 0;
  list: LinkedList<InFlightRequest> | undefined;
  previous: InFlightRequest | undefined;
  next: InFlightRequest | undefined;
  readonly startedAt: Monotonic;
  readonly #exchange: NodeHttpExchange;
  readonly #control: ControlHandler;
  readonly #dependencies: RequestDependencies;
  readonly #body = new RequestBody(false, Number.NaN, MAX_BODY_BYTES);
  readonly #drained = new DrainedBody();
  #state: 'arriving' | 'too_large' | 'over' = 'arriving';

  constructor(exchange: NodeHttpExchange, control: ControlHandler, dependencies: RequestDependencies) {
    this.startedAt = dependencies.clock.monotonic();
    this.#exchange = exchange;
    this.#control = control;
    this.#dependencies = dependencies;
  }

  read(): void {
    const { request } = this.#exchange;
    request.on('data', (piece: Buffer) => this.#onData(piece));
    request.once('end', () => this.#onEnd());
    (request.socket as TrackedSocket)[INCOMING_BODY] = this;
  }

  onDisconnect(): void {
    this.#release();
  }

  evict(): void {
    this.#rejectOverloaded();
  }

  #onData(piece: Buffer): void {
    if (this.#state !== 'arriving') {
      if (this.#drained.exceedsLimit(piece)) this.#exchange.request.destroy();
    } else if (this.#body.size + piece.length > MAX_BODY_BYTES) this.#state = 'too_large';
    else if (!this.#dependencies.admission.reserve(this, piece.length) || !this.#body.append(piece))
      this.#rejectOverloaded();
  }

  #onEnd(): void {
    if (this.#state === 'over') return;
    const body = this.#state === 'too_large' ? 'too_large' : this.#body.text();
    this.#release();
    this.#dispatch(body);
  }

  #dispatch(body: string): void {
    const { remoteAddress: address = '' } = clientOf(this.#exchange, this.#dependencies.proxies);
    try {
      this.#exchange.delegate((request, response) => this.#control(request, response, { address, body }));
    } catch (error) {
      const path = targetPath(this.#exchange.target);
      this.#dependencies.logger.error({ error, path }, 'request.failed');
      if (!this.#exchange.isResponseSent) this.#exchange.reply(errorResponse('internal_error'));
    }
  }

  #rejectOverloaded(): void {
    this.#release();
    this.#exchange.closeAfterResponse();
    rejectOverloaded(this.#exchange, this.#dependencies);
  }

  #release(): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    (this.#exchange.request.socket as TrackedSocket)[INCOMING_BODY] = undefined;
    this.#dependencies.admission.release(this);
  }
}
