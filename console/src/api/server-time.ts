/**
 * The server's clock, as the answers tell it. Ages and ranges go by it: the clock of a browser may be an hour
 * off.
 *
 * Each answer says in `Date` in which second it was made, between the request and its arrival. That bounds
 * the difference of the clocks, and the first difference within the bounds is kept until an answer
 * contradicts it.
 */
export class ServerTime {
  /** Milliseconds by which the server's clock is ahead of this one. */
  #ahead = 0;

  /** An answer made at `date` of the server came. `asked` and `came` are of this clock, in milliseconds. */
  note(date: number, asked: number, came: number): void {
    if (Number.isNaN(date)) return;
    const least = date - came;
    const most = date + 999 - asked;
    if (least <= most) this.#ahead = Math.min(most, Math.max(least, this.#ahead));
  }

  /** The time at the server when this clock shows `now`. */
  at(now: number): number {
    return now + this.#ahead;
  }
}

const serverTime = new ServerTime();

/** The time at the server, in milliseconds. */
export function serverNow(): number {
  return serverTime.at(Date.now());
}

/** `fetch`, whose answers tell the time at the server. */
export async function timedFetch(request: Request): Promise<Response> {
  const asked = Date.now();
  const response = await fetch(request);
  serverTime.note(Date.parse(response.headers.get('date') ?? ''), asked, Date.now());
  return response;
}
