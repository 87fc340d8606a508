import type { AcceptedEvent, Attempt, DeliveryTrace } from './queries.ts';

/** An attempt as a bar: where it begins and how long it is, as parts of the whole time between 0 and 1. */
export interface WayBar {
  readonly start: number;
  readonly length: number;
  readonly attempt: Attempt;
  /** Milliseconds after the event was received. */
  readonly after: number;
  /** Where the attempt before it ended; absent for the first of its endpoint. */
  readonly waitedFrom?: number;
}

export interface WayLane {
  readonly delivery: DeliveryTrace;
  readonly bars: readonly WayBar[];
}

export interface Way {
  readonly lanes: readonly WayLane[];
  /** Milliseconds that the whole width stands for. */
  readonly span: number;
  /** Milliseconds of the marks below. */
  readonly ticks: readonly number[];
}

/** Room for the words behind the last bar. */
const MARGIN = 1.25;
/** So quick an event is still drawn over this time, in milliseconds. */
const SHORTEST = 20;

/** An event's attempts to scale, from its arrival to the end of the last one. What was not tried yet stands last. */
export function wayOf({ receivedAt, deliveries }: Pick<AcceptedEvent, 'receivedAt' | 'deliveries'>): Way {
  const begin = Date.parse(receivedAt);
  const ends = deliveries.flatMap(({ attempts }) => attempts.map((attempt) => endOf(attempt) - begin));
  const span = Math.max(SHORTEST, ...ends) * MARGIN;
  const lanes = deliveries
    .map((delivery) => ({ delivery, bars: barsOf(delivery, begin, span) }))
    .sort((one, other) => firstOf(one) - firstOf(other));
  return { lanes, span, ticks: ticksOf(span) };
}

function firstOf({ bars }: WayLane): number {
  return bars[0]?.after ?? Number.MAX_VALUE;
}

function barsOf({ attempts }: DeliveryTrace, begin: number, span: number): WayBar[] {
  const ended = new Map<string, number>();
  return attempts.map((attempt) => {
    const after = Math.max(0, Date.parse(attempt.startedAt) - begin);
    const before = ended.get(attempt.endpoint);
    ended.set(attempt.endpoint, endOf(attempt) - begin);
    return {
      start: after / span,
      length: attempt.latencyMs / span,
      attempt,
      after,
      ...(before === undefined ? {} : { waitedFrom: Math.min(before, after) / span }),
    };
  });
}

function endOf({ startedAt, latencyMs }: Attempt): number {
  return Date.parse(startedAt) + latencyMs;
}

/** Five or six round numbers from 0 up. The last one leaves room for its label. */
function ticksOf(span: number): number[] {
  const rough = span / 6;
  // From a minute on the marks are whole minutes, and from an hour on whole hours: their words have no smaller parts.
  const unit = rough > 900_000 ? 3_600_000 : rough > 15_000 ? 60_000 : 1;
  const power = 10 ** Math.max(unit === 1 ? -3 : 0, Math.floor(Math.log10(rough / unit)));
  const step = ([1, 2, 5, 10].find((factor) => factor * power * unit >= rough) ?? 10) * power * unit;
  return Array.from({ length: Math.ceil((span * 0.96) / step) }, (_, index) => index * step);
}
