import type { CallType } from '../model/call.ts';
import type { Monotonic } from '../model/time.ts';
import type { Exchange } from './exchange.ts';
import type { InFlight, Place } from './in-flight.ts';
import { callRequest, type Means } from './incoming-call.ts';
import { bodyInQuery, PIXEL } from './pixel.ts';
import { queryIn } from './routes.ts';

/**
 * A call as an image: `GET /v1/pixel/<type>`. The image is the answer to everything, but it comes after the call is stored: a
 * page may wait for it and move on. Without a type there is none of that name.
 */
export function takePixel(exchange: Exchange, type: CallType | undefined, means: Means): void {
  const { receiver, clock, inFlight, tallies, overload, logger } = means;
  // HEAD asks what an answer would look like, and must not change anything.
  if (exchange.request.method === 'HEAD') exchange.reply(PIXEL);
  else if (type === undefined) {
    tallies?.discarded({ unknown_type: 1 });
    exchange.reply(PIXEL);
  } else {
    const receivedAt = clock.now();
    const call = new PixelCall(exchange, inFlight, clock.monotonic());
    if (!inFlight.enter(call)) {
      tallies?.refused('overloaded');
      overload.turnedAway();
      exchange.reply(PIXEL);
      return;
    }
    inFlight.arrived(call);
    try {
      const body = bodyInQuery(queryIn(exchange.target));
      receiver(callRequest(exchange, { type, body, receivedAt }, means), () => call.end());
    } catch (error) {
      logger.error({ error, type }, 'request.failed');
      call.end();
    }
  }
}

/** Its place is counted as a request; its few bytes came with the head, which has a limit of its own. */
class PixelCall implements Place {
  bytes = 0;
  isArriving = false;
  older: Place | undefined;
  younger: Place | undefined;
  readonly since: Monotonic;
  readonly #exchange: Exchange;
  readonly #inFlight: InFlight;
  #isOver = false;

  constructor(exchange: Exchange, inFlight: InFlight, since: Monotonic) {
    this.since = since;
    this.#exchange = exchange;
    this.#inFlight = inFlight;
  }

  /** Never asked: it arrived whole. */
  cutOff(): void {
    this.end();
  }

  end(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#inFlight.leave(this);
    this.#exchange.reply(PIXEL);
  }
}
