import type { AcceptedEvent, Attempt, DeliveryTrace } from './queries.ts';

/** An attempt as a bar. Start and length are shares of the whole time, between 0 and 1. */
export interface WayBar {
  readonly start: number;
  readonly length: number;
  readonly attempt: Attempt;
  /** Milliseconds after the event was received. */
  readonly after: number;
  /** End of the attempt before, as a share; absent for the first attempt of its endpoint. */
  readonly waitedFrom?: number;
}

export interface WayLane {
  readonly delivery: DeliveryTrace;
  readonly bars: readonly WayBar[];
}

export interface Way {
  readonly lanes: readonly WayLane[];
  /** Milliseconds of the whole width. */
  readonly span: number;
  /** Milliseconds of the marks below. */
  readonly ticks: readonly number[];
}

/** Shortest time that is drawn, in milliseconds; quicker events use it too. */
const SHORTEST = 25;

/**
 * Attempts of an event to scale, from its arrival to the end of the last one. Deliveries without an attempt
 * stand last.
 */
export function wayOf({ receivedAt, deliveries }: Pick<AcceptedEvent, 'receivedAt' | 'deliveries'>): Way {
  const begin = Date.parse(receivedAt);
  const ends = deliveries.flatMap(({ attempts }) => attempts.map((attempt) => endOf(attempt) - begin));
  const span = ends.reduce((longest, end) => Math.max(longest, end), SHORTEST);
  const lanes = deliveries
    .map((delivery) => ({ delivery, bars: barsOf(delivery, begin, span) }))
    .sort((one, other) => firstOf(one) - firstOf(other));
  return { lanes, span, ticks: ticksOf(span) };
}

/** At most `most` lanes, unfinished deliveries first. Lanes keep their order. */
export function mostTelling(lanes: readonly WayLane[], most: number): readonly WayLane[] {
  if (lanes.length <= most) return lanes;
  const isDone = ({ delivery }: WayLane): boolean => delivery.state === 'delivered';
  const chosen = new Set([...lanes.filter((lane) => !isDone(lane)), ...lanes.filter(isDone)].slice(0, most));
  return lanes.filter((lane) => chosen.has(lane));
}

/**
 * Shortest labels that tell endpoints apart: their hosts; their paths if the hosts are equal; otherwise whole
 * URLs. A single endpoint needs none.
 */
export function endpointLabels(urls: readonly string[]): ReadonlyMap<string, string> {
  const all = [...new Set(urls)];
  if (all.length < 2) return new Map();
  const forms: readonly ((url: string) => string)[] = [
    (url) => URL.parse(url)?.host ?? url,
    (url) => url.replace(URL.parse(url)?.origin ?? '', ''),
  ];
  const form = forms.find((one) => new Set(all.map(one)).size === all.length);
  return new Map(all.map((url) => [url, form?.(url) ?? url]));
}

/** By destination, and then by URL. */
export type EndpointLabels = ReadonlyMap<string, ReadonlyMap<string, string>>;

/** The same for all destinations of an event: with `success: each` an endpoint has a delivery of its own. */
export function labelsByDestination(deliveries: readonly DeliveryTrace[]): EndpointLabels {
  const byDestination = Map.groupBy(deliveries, ({ destination }) => destination);
  const urlsOf = (own: readonly DeliveryTrace[]) =>
    own.flatMap(({ attempts }) => attempts.map(({ endpoint }) => endpoint));
  return new Map(Array.from(byDestination, ([name, own]) => [name, endpointLabels(urlsOf(own))]));
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
  // From a minute on the marks are whole minutes, and from an hour on whole hours: their words have no
  // smaller parts.
  const unit = rough > 900_000 ? 3_600_000 : rough > 15_000 ? 60_000 : 1;
  const power = 10 ** Math.max(unit === 1 ? -3 : 0, Math.floor(Math.log10(rough / unit)));
  const step = ([1, 2, 5, 10].find((factor) => factor * power * unit >= rough) ?? 10) * power * unit;
  return Array.from({ length: Math.ceil((span * 0.96) / step) }, (_, index) => index * step);
}
