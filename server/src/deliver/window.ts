/** Deliveries a lane keeps in memory; the rest waits on disk. Enough for a fast endpoint between two claims. */
const WINDOW = 2000;

/** New deliveries all lanes together take into memory. A window is a tenth of it, so no lane can take it all. */
const TOTAL_WINDOW = 20_000;

/**
 * When all lanes together have taken everything, each may still claim so many: ten lanes that hang must not leave the
 * others without.
 */
const SHARE = 200;

const CLAIM_MOST = 500;

/**
 * A lane that catches up has in memory what it sends in about so many round trips, and never less than a commit is worth.
 * With many requests at once, two round trips and a claim are enough: what waits longer in memory only costs more.
 */
const ROUNDS_AHEAD = 16;
const ROUNDS_AT_LEAST = 2;
const CLAIM_LEAST = 32;

/** Deliveries in the memory of all lanes together: reserved, ready or in flight. */
export interface TotalHeld {
  held: number;
}

/** How many new deliveries fit into memory. */
export function roomForNew(held: number, total: TotalHeld): number {
  return Math.max(0, Math.min(WINDOW - held, TOTAL_WINDOW - total.held));
}

export interface LaneWindow {
  readonly held: number;
  /** Something due waits on disk, and nothing new is taken until it is claimed. */
  readonly isBehind: boolean;
  /** The lane's concurrency. */
  readonly limit: number;
}

/**
 * How many deliveries may be claimed from disk; 0 when so little of the window is free that it is not worth a commit.
 * A lane that is behind has a window as large as its concurrency can use: after an outage, or at an endpoint that
 * hangs, it claims a few and not hundreds that it could only hand back.
 */
export function roomToClaim({ held, isBehind, limit }: LaneWindow, total: TotalHeld): number {
  const ahead = Math.min(ROUNDS_AHEAD * limit, ROUNDS_AT_LEAST * limit + CLAIM_MOST);
  const useful = isBehind ? Math.max(CLAIM_LEAST, ahead) : WINDOW;
  const window = Math.min(useful, total.held < TOTAL_WINDOW ? WINDOW : SHARE);
  const room = window - held;
  return room >= window / 4 ? Math.min(room, CLAIM_MOST) : 0;
}
