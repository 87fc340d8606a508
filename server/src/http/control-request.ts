import type { Monotonic } from '../model/time.ts';
import type { Control, ControlAnswer } from '../ports/control.ts';
import { Body, Waste } from './body.ts';
import { ARRIVING, type Carrier } from './connections.ts';
import type { Exchange } from './exchange.ts';
import type { Place } from './in-flight.ts';
import { type Means, senderOf, turnAway } from './incoming-call.ts';
import { failure } from './respond.ts';
import { pathIn, queryIn } from './routes.ts';

/** Bytes of a body of the control API; more are thrown away, and the control API is told. */
const MOST_BYTES = 1024 * 1024;

/**
 * Collects the body of a request to the control API within the bounds, and answers as the control API says. Who sends it is
 * not known yet, so it is bounded like a call: it has a place in flight until its body is here.
 */
export function askControl(exchange: Exchange, control: Control, means: Means): void {
  const asked = new ControlRequest(exchange, control, means);
  if (means.inFlight.enter(asked)) {
    exchange.invite();
    asked.read();
  } else turnAway(exchange, means);
}

class ControlRequest implements Place {
  bytes = 0;
  isArriving = false;
  older: Place | undefined;
  younger: Place | undefined;
  readonly since: Monotonic;
  readonly #exchange: Exchange;
  readonly #control: Control;
  readonly #means: Means;
  readonly #body = new Body(false, Number.NaN, MOST_BYTES);
  readonly #waste = new Waste();
  #state: 'arriving' | 'too_large' | 'over' = 'arriving';

  constructor(exchange: Exchange, control: Control, means: Means) {
    this.since = means.clock.monotonic();
    this.#exchange = exchange;
    this.#control = control;
    this.#means = means;
  }

  read(): void {
    const { request } = this.#exchange;
    request.on('data', (piece: Buffer) => this.#take(piece));
    request.once('end', () => this.#end());
    (request.socket as Carrier)[ARRIVING] = this;
  }

  gone(): void {
    this.#leave();
  }

  cutOff(): void {
    this.#turnAway();
  }

  #take(piece: Buffer): void {
    if (this.#state !== 'arriving') {
      if (this.#waste.isTooMuch(piece)) this.#exchange.request.destroy();
    } else if (this.#body.size + piece.length > MOST_BYTES) this.#state = 'too_large';
    else if (!this.#means.inFlight.grow(this, piece.length) || !this.#body.add(piece)) this.#turnAway();
  }

  #end(): void {
    if (this.#state === 'over') return;
    const body = this.#state === 'too_large' ? 'too_large' : this.#body.text();
    this.#leave();
    this.#ask(body);
  }

  /** Not on the hot path, so a promise does no harm here. */
  #ask(body: string): void {
    const { method = '', headers } = this.#exchange.request;
    const { remoteAddress = '' } = senderOf(this.#exchange, this.#means.proxies);
    const path = pathIn(this.#exchange.target);
    const query = queryIn(this.#exchange.target);
    const idempotencyKey = headers['idempotency-key'];
    this.#control({
      ...{ method, path, query, body, address: remoteAddress },
      ...{ authorization: headers.authorization, ifMatch: headers['if-match'] },
      idempotencyKey: typeof idempotencyKey === 'string' ? idempotencyKey : undefined,
    })
      .then((answer) => this.#reply(answer))
      .catch((error: unknown) => {
        this.#means.logger.error({ error, path }, 'request.failed');
        if (!this.#exchange.isAnswered) this.#exchange.reply(failure('internal_error'));
      });
  }

  #reply({ status, headers, body }: ControlAnswer): void {
    const flat = Object.entries(headers).flat();
    if (typeof body !== 'string') {
      this.#exchange.stream({ status, headers: flat }, body);
      return;
    }
    flat.push('Content-Length', String(Buffer.byteLength(body)));
    this.#exchange.reply({ status, headers: flat, body });
  }

  #turnAway(): void {
    this.#leave();
    this.#exchange.closeAfter();
    turnAway(this.#exchange, this.#means);
  }

  #leave(): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    (this.#exchange.request.socket as Carrier)[ARRIVING] = undefined;
    this.#means.inFlight.leave(this);
  }
}
