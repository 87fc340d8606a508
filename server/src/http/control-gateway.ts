import { isUtf8 } from 'node:buffer';
import type { ControlHandler, ReceivedRequest } from '../control-api/contract.ts';
import type { LinkedList } from '../model/containers.ts';
import type { Monotonic } from '../model/time.ts';
import { firstInvalid } from '../model/utf8.ts';
import type { InFlightRequest } from './admission.ts';
import { errorResponse, INCOMING_BODY, type NodeHttpExchange, type TrackedSocket } from './exchange.ts';
import {
  clientOf,
  DrainedBody,
  drainRequest,
  RequestBody,
  type RequestDependencies,
  rejectOverloaded,
} from './receiving-api.ts';
import { targetPath } from './routes.ts';

/**
 * The largest body of the control API, in bytes. Of a larger one the handler is told `too_large` as soon as
 * it shows.
 */
const MAX_BODY_BYTES = 1024 * 1024;

/**
 * Collects the body of a request to the control API within the bounds, and hands the request over. The sender
 * is not authenticated yet, so the request takes a slot like a call until its body is complete.
 */
export function handleControlRequest(
  exchange: NodeHttpExchange,
  control: ControlHandler,
  dependencies: RequestDependencies,
): void {
  if (exchange.contentLength > MAX_BODY_BYTES) {
    drainRequest(exchange);
    dispatch(exchange, control, dependencies, { body: 'too_large' });
    return;
  }
  const asked = new PendingControlRequest(exchange, control, dependencies);
  if (dependencies.admission.admit(asked)) {
    exchange.writeContinue();
    asked.read();
  } else {
    drainRequest(exchange);
    rejectOverloaded(exchange, dependencies, false);
  }
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
  #isOver = false;

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
    if (this.#isOver) {
      if (this.#drained.exceedsLimit(piece)) this.#exchange.closeWhileReceiving();
    } else if (this.#body.size + piece.length > MAX_BODY_BYTES) this.#dispatch({ body: 'too_large' });
    else if (!this.#dependencies.admission.reserve(this, piece.length) || !this.#body.append(piece))
      this.#rejectOverloaded();
  }

  #onEnd(): void {
    if (this.#isOver) return;
    this.#dispatch(textOf(this.#body.received()));
  }

  #dispatch(body: ReceivedBody): void {
    this.#release();
    dispatch(this.#exchange, this.#control, this.#dependencies, body);
  }

  #rejectOverloaded(): void {
    this.#release();
    this.#exchange.closeAfterResponse();
    rejectOverloaded(this.#exchange, this.#dependencies, false);
  }

  #release(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    (this.#exchange.request.socket as TrackedSocket)[INCOMING_BODY] = undefined;
    this.#dependencies.admission.release(this);
  }
}

type ReceivedBody = Pick<ReceivedRequest, 'body' | 'invalidAt'>;

function textOf(bytes: Buffer): ReceivedBody {
  const body = bytes.toString();
  return isUtf8(bytes) ? { body } : { body, invalidAt: firstInvalid(bytes) };
}

function dispatch(
  exchange: NodeHttpExchange,
  control: ControlHandler,
  { proxies, logger }: RequestDependencies,
  received: ReceivedBody,
): void {
  const { remoteAddress: address = '' } = clientOf(exchange, proxies);
  try {
    exchange.delegate((request, response) => control(request, response, { address, ...received }));
  } catch (error) {
    logger.error({ error, path: targetPath(exchange.target) }, 'request.failed');
    if (!exchange.isResponseSent) exchange.reply(errorResponse('internal_error'));
  }
}
