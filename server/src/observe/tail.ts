import { type Duration, SECOND } from '../model/time.ts';
import type { Clock } from '../ports/clock.ts';
import type { AnswerStream } from '../ports/control.ts';
import type { Happening, Observer, Watching } from '../ports/observer.ts';
import { wants } from './tail-filter.ts';
import { tailLine } from './tail-line.ts';
import { type TailWish, Viewer } from './viewer.ts';

/** Each may have a megabyte of text in memory and costs a line of JSON for what it wants to see. */
const MOST_VIEWERS = 20;

/** So that neither a proxy nor the viewer takes a quiet connection for a dead one. */
const HEARTBEAT: Duration = 15 * SECOND;

export interface TailTools {
  readonly clock: Clock;
  /** Who watches all the time, beside the viewers. */
  readonly observer?: Observer | undefined;
}

/**
 * Lets people watch what happens. While nobody does it costs nothing: whoever makes things happen asks `watching` first, and
 * gets nothing. A happening becomes text once, however many see it, and with the whole event only where somebody wants that.
 * Nobody who watches is ever waited for: see `Viewer`.
 */
export class Tail {
  readonly #clock: Clock;
  readonly #always: Observer | undefined;
  readonly #viewers = new Set<Viewer>();
  #watching: Observer | undefined;
  #cancelHeartbeat: (() => void) | undefined;
  #flushesSoon = false;
  #stopped = false;

  constructor({ clock, observer }: TailTools) {
    this.#clock = clock;
    this.#always = observer;
    this.#watching = observer;
  }

  readonly watching: Watching = () => this.#watching;

  /** A new viewer, as the body of an answer; `full` when there are too many. */
  readonly open = (wish: TailWish): AnswerStream | 'full' => {
    if (this.#viewers.size >= MOST_VIEWERS) return 'full';
    const viewer = new Viewer(wish, () => this.#leave(viewer));
    this.#viewers.add(viewer);
    if (this.#stopped) viewer.end();
    this.#watching = this.#always === undefined ? this.#show : this.#showAll;
    this.#cancelHeartbeat ??= this.#clock.after(HEARTBEAT, this.#beat);
    return viewer;
  };

  /** Ends the answer of every viewer, and of whoever still comes. Idempotent. */
  stop(): void {
    this.#stopped = true;
    for (const viewer of this.#viewers) viewer.end();
  }

  readonly #showAll: Observer = (happening) => {
    this.#always?.(happening);
    this.#show(happening);
  };

  readonly #show: Observer = (happening) => {
    const lines = new Lines(happening, this.#clock);
    for (const viewer of this.#viewers) {
      if (!wants(viewer.wish, happening)) continue;
      if (viewer.hasRoom) viewer.add(viewer.wish.body ? lines.whole : lines.short);
      else viewer.lose();
      this.#flushSoon();
    }
  };

  /** A commit makes hundreds of things happen at once, which are one write to each viewer. */
  #flushSoon(): void {
    if (this.#flushesSoon) return;
    this.#flushesSoon = true;
    setImmediate(() => {
      this.#flushesSoon = false;
      for (const viewer of this.#viewers) viewer.flush();
    });
  }

  readonly #beat = (): void => {
    this.#cancelHeartbeat = this.#clock.after(HEARTBEAT, this.#beat);
    for (const viewer of this.#viewers) viewer.beat();
  };

  #leave(viewer: Viewer): void {
    this.#viewers.delete(viewer);
    if (this.#viewers.size > 0) return;
    this.#watching = this.#always;
    this.#cancelHeartbeat?.();
    this.#cancelHeartbeat = undefined;
  }
}

/** The text of one happening, made when the first viewer wants it. */
class Lines {
  readonly #happening: Happening;
  readonly #clock: Clock;
  #short: string | undefined;
  #whole: string | undefined;

  constructor(happening: Happening, clock: Clock) {
    this.#happening = happening;
    this.#clock = clock;
  }

  get short(): string {
    this.#short ??= tailLine(this.#happening, { at: this.#clock.now(), body: false });
    return this.#short;
  }

  get whole(): string {
    this.#whole ??= tailLine(this.#happening, { at: this.#clock.now(), body: true });
    return this.#whole;
  }
}
