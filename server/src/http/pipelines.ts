import type { Socket } from 'node:net';

/**
 * Requests that one connection may have in one turn of the event loop. Clients wait for an answer before they send the
 * next request; whoever sends hundreds behind each other would have them all handled before anybody else's.
 */
const MOST_AT_ONCE = 150;

/** So many of one connection in a row, and it is looked whether they come in one turn: asking at each would cost. */
const SUSPICIOUS = 50;

/** Notices connections whose requests come without end. Those of one turn come behind each other, nobody's in between. */
export class Pipelines {
  #last: Socket | undefined;
  #inARow = 0;
  readonly #endTurn = () => {
    this.#inARow = 0;
    this.#last = undefined;
  };

  /** `flood`: this one is too many, `rest`: what comes behind it. At least a hundred at once are ordinary. */
  next(socket: Socket): 'ordinary' | 'flood' | 'rest' {
    if (socket !== this.#last) {
      this.#last = socket;
      this.#inARow = 1;
      return 'ordinary';
    }
    this.#inARow++;
    if (this.#inARow === SUSPICIOUS) setImmediate(this.#endTurn);
    if (this.#inARow <= MOST_AT_ONCE) return 'ordinary';
    return this.#inARow === MOST_AT_ONCE + 1 ? 'flood' : 'rest';
  }
}
